"""The workflows of attn check, one a check."""
