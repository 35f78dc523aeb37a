package cli

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/store"
)

// noClusters says that the store is empty, and where else clusters may be: root and its users have stores of their own.
func noClusters(w io.Writer, st store.Store) error {
	text := fmt.Sprintf("No clusters in %s.\nnaupegos init writes a document, naupegos apply builds it.\n", st.Where())
	if st.Where() != st.Dir() { // a team's
		_, err := io.WriteString(w, text)
		return err
	}
	if os.Geteuid() != 0 {
		text += "Clusters that root built are in root's store: sudo -E naupegos status, or sudo naupegos status.\n"
	} else if other := storeBeforeSudo(st.Dir()); other != "" {
		text += fmt.Sprintf("%s is the store of the user who ran sudo: sudo -E uses that one.\n", other)
	}
	_, err := io.WriteString(w, text)
	return err
}

// storeBeforeSudo returns the store of the user who became root by sudo, if there is one and it is not dir.
func storeBeforeSudo(dir string) string {
	u, err := user.Lookup(os.Getenv("SUDO_USER"))
	if err != nil {
		return ""
	}
	other := filepath.Join(u.HomeDir, ".local", "state", "naupegos")
	if _, err := os.Stat(other); err != nil || other == dir {
		return ""
	}
	return other
}
