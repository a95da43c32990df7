"""Derivatives of compiled steps with contacts, and what contacts do to them."""
