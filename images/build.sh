#!/usr/bin/env bash
# Builds our images and pushes them, then prints the `sparewheel:images` block of a stack's file, every image by its digest.
#   REGISTRY=ghcr.io/OWNER/REPO TAG=0.1.0 images/build.sh
# PUSH=no leaves them on this machine, and prints them by their tags: for kind.
# BUILDER is docker (with buildx) unless you say podman. SLURM is the tag of Slinky's images that ours are made from.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${REGISTRY:?say where to: REGISTRY=ghcr.io/OWNER/REPO}" "${TAG:?say which version: TAG=0.1.0}"
builder=${BUILDER:-docker}
push=${PUSH:-yes}
slurm=${SLURM:-26.05-ubuntu26.04}
base=${BASE:-docker.io/library/alpine:3.22}
mariadb=${MARIADB:-docker.io/library/mariadb:11}
daemons=(slurmctld slurmd slurmdbd slurmrestd login)

# The digest of an image that a registry has.
digest() {
  if [[ $builder == docker ]]; then
    docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1"
  else
    skopeo inspect --format '{{.Digest}}' "docker://$1"
  fi
}

# build NAME TAG CONTAINERFILE [ARGUMENT...]
build() {
  local image=$REGISTRY/$1:$2 file=$3
  shift 3
  "$builder" build --pull --file "$file" --tag "$image" "$@" . >&2
  if [[ $push == yes ]]; then "$builder" push "$image" >&2; fi
}

# line FIELD IMAGE
line() {
  local digest
  if [[ $push != yes ]]; then
    printf '    %s: %s\n' "$1" "$2"
    return
  fi
  digest=$(digest "$2")
  [[ $digest == sha256:* ]] || { echo "error: the registry names no digest for $2" >&2; exit 1; }
  printf '    %s: %s@%s\n' "$1" "$2" "$digest"
}

build sparewheel "$TAG" images/sparewheel/Containerfile
for daemon in "${daemons[@]}"; do
  build "$daemon" "$slurm-$TAG" images/slurm/Containerfile --build-arg "DAEMON=$daemon" --build-arg "SLURM=$slurm"
done

echo "  sparewheel:images:"
for daemon in "${daemons[@]}"; do
  line "$daemon" "$REGISTRY/$daemon:$slurm-$TAG"
done
line base "$base"
line mariadb "$mariadb"
line sparewheel "$REGISTRY/sparewheel:$TAG"
