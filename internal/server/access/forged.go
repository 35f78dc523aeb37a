package access

import (
	"errors"

	"github.com/naupegos/naupegos/internal/store"
)

// forged reports whether an error says that somebody else wrote the row of a token or a session. The log tells the administrator which; whoever
// shows the token learns nothing but that it is wrong.
func (g *Gate) forged(err error) bool {
	if !errors.Is(err, store.ErrForged) {
		return false
	}
	g.log.Error("the store holds a row that its identity did not write", "error", err.Error())
	return true
}
