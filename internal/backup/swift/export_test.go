package swift

// Token is the one that is in use.
func (c *Container) Token() string { return c.session.token }
