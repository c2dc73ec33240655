"""A resource plugin that serves the tokens of pulumi-command 1.2 where the official plugin can't be had.

Served: `command:local:Command`, `command:remote:Command`, `command:remote:CopyToRemote`, `command:local:run`. A program
written for the official plugin runs unchanged. Not served: `assetPaths` and `archivePaths`, which are refused. One
difference remains: SSH doesn't say when a server ignores an environment variable, so that a remote command's
`environment` needs `AcceptEnv` on the server and is lost silently without it.
"""
