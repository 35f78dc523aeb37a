// Command age-plugin-naupegostest is an age plugin for tests. Its identity contains the key, and it asks for a PIN.
package main

import (
	"errors"
	"os"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

func main() {
	p, err := plugin.New("naupegostest")
	if err != nil {
		panic(err)
	}
	identity := func(data []byte) (*age.X25519Identity, error) { return age.ParseX25519Identity(string(data)) }
	p.HandleIdentity(func(data []byte) (age.Identity, error) {
		if pin, err := p.RequestValue("PIN", true); err != nil || pin != "1234" {
			return nil, errors.New("wrong PIN")
		}
		return identity(data)
	})
	p.HandleIdentityAsRecipient(func(data []byte) (age.Recipient, error) {
		id, err := identity(data)
		if err != nil {
			return nil, err
		}
		return id.Recipient(), nil
	})
	os.Exit(p.Main())
}
