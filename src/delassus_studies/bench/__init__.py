"""What `delassus bench` runs: of each benchmark `measure`, which gives a record that grows, `tables` of it, `draw`."""
