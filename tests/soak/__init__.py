"""Long campaigns, outside of CI: `make soak`. One file each in `campaigns/`; docs/campaigns.md keeps their results."""
