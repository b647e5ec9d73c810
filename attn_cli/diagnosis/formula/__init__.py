"""The formula of attention in steps that can be replaced one by one: how a mistake is committed."""
