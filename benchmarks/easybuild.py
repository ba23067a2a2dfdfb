"""EntriesByEasyBuild"""
