"""Results become characters: screens for people, JSON for programs; nothing is computed here."""
