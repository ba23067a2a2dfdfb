# envmgr: completion of its commands in fish, asked for at the first Tab. Installed by `envmgr node-setup`.
command -q envmgr; and envmgr completion fish 2>/dev/null | source
