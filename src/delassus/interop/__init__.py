"""Models and states of other libraries, converted to ours and back; each file imports its library when it is called."""
