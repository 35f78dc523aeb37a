package swift

// Token returns the current token.
func (c *Container) Token() string { return c.session.token }
