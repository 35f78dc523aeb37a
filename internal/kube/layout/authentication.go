package layout

import (
	"slices"

	"github.com/naupegos/naupegos/internal/machine"
)

// AuthenticationConfig returns the AuthenticationConfiguration of API servers with these issuers (Params.Issuers).
func AuthenticationConfig(issuers []byte) []byte {
	return append([]byte(authenticationBase), issuers...)
}

// asStarted returns the files of a machine with the part of the AuthenticationConfiguration alone that an API server reads only when it starts. The server
// reloads its issuers by itself, so a change of them must not change the digest that restarts it.
func asStarted(files fileSet) fileSet {
	files = slices.Clone(files)
	for i, f := range files {
		if f.Path == authenticationPath {
			files[i] = machine.File{Path: f.Path, Mode: f.Mode, Content: []byte(authenticationBase)}
		}
	}
	return files
}
