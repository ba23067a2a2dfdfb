"""Long campaigns, outside of CI: `make soak`. One file each in `campaigns/`; what they came to is told in docs/soak.md."""
