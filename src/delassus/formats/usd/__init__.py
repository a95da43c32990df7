"""OpenUSD, with the schemas of UsdPhysics."""
