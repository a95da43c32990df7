"""What a robot is: trees of links and joints, the URDF reader, and mechanisms made by rule."""
