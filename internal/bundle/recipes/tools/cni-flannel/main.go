// Command flannel is the CNI plugin that gives pods addresses from the subnet flannel leased for this machine.
//
// It completes the "delegate" plugin's configuration from subnet.env and calls that plugin. Unlike the plugin of the
// flannel project, whose keys it takes, it waits for subnet.env: a machine may count as ready before flannel runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

const poll = 100 * time.Millisecond

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status, GC: gc}, version.All, "flannel (naupegos)")
}

func add(args *skel.CmdArgs) error {
	c, err := loadConf(args.StdinData)
	if err != nil {
		return err
	}
	s, err := waitSubnet(c.SubnetFile, time.Duration(*c.WaitSeconds)*time.Second)
	if err != nil {
		return err
	}
	d, err := c.delegate(s)
	if err != nil {
		return err
	}
	// Kept first: should the delegate or this process die half-way, DEL still knows what to take back.
	if err := save(c.DataDir, args.ContainerID, d); err != nil {
		return types.NewError(types.ErrIOFailure, "remember the delegate's configuration", err.Error())
	}
	result, err := invoke.DelegateAdd(context.Background(), typeOf(d), d, nil)
	if err != nil {
		return fmt.Errorf("delegate to %s: %w", typeOf(d), err)
	}
	return result.Print()
}

// waitSubnet reads flannel's file, waiting until it is there and whole.
func waitSubnet(path string, wait time.Duration) (*subnet, error) {
	deadline := time.Now().Add(wait)
	for {
		s, err := readSubnet(path)
		if err == nil {
			return s, nil
		}
		if !time.Now().Before(deadline) {
			return nil, types.NewError(types.ErrTryAgainLater, fmt.Sprintf("flannel has not leased a subnet after %s; is its pod running on this machine?", wait), err.Error())
		}
		time.Sleep(poll)
	}
}

// del takes back what add did. Nothing kept means nothing to take back, as the specification asks.
func del(args *skel.CmdArgs) error {
	c, err := loadConf(args.StdinData)
	if err != nil {
		return err
	}
	path := scratch(c.DataDir, args.ContainerID)
	d, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return types.NewError(types.ErrIOFailure, "read the delegate's configuration", err.Error())
	}
	if err := invoke.DelegateDel(context.Background(), typeOf(d), d, nil); err != nil {
		return fmt.Errorf("delegate to %s: %w", typeOf(d), err)
	}
	return os.Remove(path)
}

func check(args *skel.CmdArgs) error {
	c, err := loadConf(args.StdinData)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(scratch(c.DataDir, args.ContainerID))
	if err != nil {
		return types.NewError(types.ErrUnknownContainer, "this container was not added", err.Error())
	}
	var d map[string]any
	if err := json.Unmarshal(data, &d); err != nil {
		return types.NewError(types.ErrDecodingFailure, "read the delegate's configuration", err.Error())
	}
	d["prevResult"] = c.RawPrevResult
	if data, err = json.Marshal(d); err != nil {
		return err
	}
	return invoke.DelegateCheck(context.Background(), typeOf(data), data, nil)
}

// status tells whether ADD would succeed at once.
func status(args *skel.CmdArgs) error {
	c, err := loadConf(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := readSubnet(c.SubnetFile); err != nil {
		return types.NewError(types.ErrPluginNotAvailable, "flannel has not leased a subnet yet", err.Error())
	}
	return nil
}

// gc makes the delegate forget every attachment that the runtime no longer knows.
func gc(args *skel.CmdArgs) error {
	c, err := loadConf(args.StdinData)
	if err != nil {
		return err
	}
	s, err := readSubnet(c.SubnetFile)
	if err != nil {
		return types.NewError(types.ErrTryAgainLater, "flannel has not leased a subnet yet", err.Error())
	}
	data, err := c.delegate(s)
	if err != nil {
		return err
	}
	var d map[string]any
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	d["cni.dev/valid-attachments"] = c.ValidAttachments
	if data, err = json.Marshal(d); err != nil {
		return err
	}
	return invoke.DelegateGC(context.Background(), typeOf(data), data, nil)
}

func scratch(dir, container string) string { return filepath.Join(dir, filepath.Base(container)) }

func save(dir, container string, d []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	if _, err = f.Write(d); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), scratch(dir, container))
}

func typeOf(delegate []byte) string {
	var d struct{ Type string }
	if json.Unmarshal(delegate, &d) != nil {
		return ""
	}
	return d.Type
}
