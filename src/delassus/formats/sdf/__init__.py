"""SDF (SDFormat), as Gazebo and Drake read it."""
