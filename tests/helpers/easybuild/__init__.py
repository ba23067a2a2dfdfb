"""EasyBuild for tests: sites that build with it, its sources, stand-ins for installers, and what builds leave."""
