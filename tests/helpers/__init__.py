"""What several tests share: scenes, stand-ins, the cluster in namespaces."""
