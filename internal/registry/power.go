package registry

import (
	"context"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// BMC is the controller of a machine's power; its password is a secret.
type BMC struct {
	Protocol    string `json:"protocol,omitempty"` // ipmi (the default) or redfish
	Address     string `json:"address"`            // HOST or HOST:PORT
	User        string `json:"user"`
	Fingerprint string `json:"fingerprint,omitempty"` // of its certificate: sha256:HEX
	Authorities string `json:"authorities,omitempty"` // PEM authorities for its certificate
	System      string `json:"system,omitempty"`      // the machine's ID on the BMC, if that has several
}

// access returns the controller's address and login. firmware is the machine's: bios, efi, or empty if unknown.
func (b BMC) access(uuid, firmware string, password []byte) bmc.Access {
	return bmc.Access{Firmware: firmware, Protocol: b.Protocol, Address: b.Address, User: b.User, Password: password, Fingerprint: b.Fingerprint, Authorities: b.Authorities,
		System: b.System, UUID: uuid}
}

// Power switches machines.
type Power interface {
	// Power performs a power action on a machine, and returns whether the machine is on afterwards. boot selects the device for the next boot only.
	Power(ctx context.Context, a bmc.Access, action, boot string) (on bool, err error)
}

// Secrets stores the passwords of BMCs; it is a part of store.Secrets.
type Secrets interface {
	// Get returns the value of a secret, or fail.NotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put stores a secret, and replaces an older value.
	Put(ctx context.Context, name string, value []byte) error
	// Delete deletes a secret. A missing secret is not an error.
	Delete(ctx context.Context, name string) error
}

// PowerActions lists the actions on a machine's power.
func PowerActions() []string { return bmc.Actions() }

func bmcSecret(uuid string) string { return "bmc/" + uuid }

// SetBMC sets the controller of a machine's power; an empty address removes it with its password.
func (r *Registry) SetBMC(ctx context.Context, uuid string, b BMC, password []byte) (*Machine, error) {
	if r.o.Secrets == nil {
		return nil, fail.New(fail.Refused, "this server stores no BMCs' passwords, so it can't control machines' power")
	}
	if b.Address != "" {
		if err := b.access(uuid, "", password).Check(); err != nil {
			return nil, err
		}
	}
	if _, err := r.Machine(ctx, uuid); err != nil {
		return nil, err
	}
	var err error
	if b.Address == "" {
		err = r.o.Secrets.Delete(ctx, bmcSecret(uuid))
	} else {
		err = r.o.Secrets.Put(ctx, bmcSecret(uuid), password)
	}
	if err != nil {
		return nil, err
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		rec.BMC = nil
		if b.Address != "" {
			rec.BMC = &b
		}
		if b.Address == "" {
			d.Note("BMC removed", "")
		} else {
			d.Note("BMC set", strings.TrimSpace(strings.Join([]string{b.Protocol, b.User, b.Address}, " ")))
		}
		return nil
	})
}

// SwitchPower performs a power action on a machine, and returns whether the machine is on afterwards. boot selects the device for the next boot
// only: bmc.FromNetwork, bmc.FromDisk or bmc.AsUsual.
func (r *Registry) SwitchPower(ctx context.Context, uuid, action, boot, by string) (on bool, err error) {
	m, err := r.Machine(ctx, uuid)
	if err != nil {
		return false, err
	}
	if m.Record.BMC == nil || r.o.Power == nil || r.o.Secrets == nil {
		return false, fail.New(fail.Refused, "no BMC is configured for the machine").At(uuid).Do("naupegos machine bmc %s --address … --user … --password-file …", uuid)
	}
	password, err := r.o.Secrets.Get(ctx, bmcSecret(m.UUID))
	if err != nil {
		return false, err
	}
	said, err := m.Said()
	if err != nil {
		return false, err
	}
	firmware := ""
	if said != nil && said.System != nil {
		firmware = said.System.Firmware
	}
	on, err = r.o.Power.Power(ctx, m.Record.BMC.access(m.UUID, firmware, password), action, boot)
	if err != nil || action == "status" {
		return on, err
	}
	_, err = r.change(ctx, m.UUID, metal.How{}, func(d *metal.Draft, _ *Record) error {
		d.Note("power "+action, "by "+by)
		return nil
	})
	return on, err
}
