"""What a robot is: trees of links and joints, and mechanisms made by rule."""
