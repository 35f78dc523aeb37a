package access

import (
	"errors"

	"github.com/naupegos/naupegos/internal/store"
)

// forged reports whether an error says that the row of a token or session failed authentication. The log names the row for the administrator; the client
// only learns that the token is invalid.
func (g *Gate) forged(err error) bool {
	if !errors.Is(err, store.ErrForged) {
		return false
	}
	g.log.Error("the store has a forged row", "error", err.Error())
	return true
}
