// The Kubernetes resource provider for Pulumi, from its own module. That module's main embeds two files under names
// that are made by its release build; here they are copied beside this file when the toolchain builds it.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

// version is set by the linker, from the toolchain's table.
var version string

func main() {
	provider.Serve("kubernetes", version, schema, terraformMapping)
}
