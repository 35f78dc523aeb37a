package rack

import (
	"context"

	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/types"
)

// chassis switches a machine. Like real ones, it remembers the device for the next boot: see mock.Chassis.
type chassis struct {
	*mock.Chassis
	m *Machine
}

// Chassis implements hal.HAL.
func (h hardware) Chassis() hal.ChassisHAL { return h.chassis }

// PowerState implements hal.ChassisHAL.
func (c *chassis) PowerState(context.Context) (bool, error) { return c.m.power.isOn(), nil }

// SetPower implements hal.ChassisHAL.
func (c *chassis) SetPower(_ context.Context, on bool) error { return c.m.power.set(on) }

// PowerCycle implements hal.ChassisHAL.
func (c *chassis) PowerCycle(context.Context) error { return c.m.power.cycle() }

// ColdReset implements hal.ChassisHAL. To a machine it is the same as a power cycle.
func (c *chassis) ColdReset(context.Context) error { return c.m.power.cycle() }

// WarmReset implements hal.ChassisHAL: the library calls it to shut a machine down, as its power button does.
func (c *chassis) WarmReset(context.Context) error { return c.m.button() }

// once returns the device for the next boot, and forgets it; true: the disk.
func (c *chassis) once(ctx context.Context) (disk bool, err error) {
	f, err := c.GetBootFlags(ctx)
	if err != nil || !f.BootFlagsValid {
		return false, nil //nolint:nilerr // no device is set
	}
	disk = f.BootDeviceSelector == types.BootDeviceSelectorForceHardDrive
	if f.Persist {
		return disk, nil
	}
	return disk, c.SetBootFlags(ctx, &types.BootOptionParam_BootFlags{})
}
