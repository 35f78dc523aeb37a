package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/vault/api"
)

// client executes one command: read, write, patch, delete, list, secrets enable|tune, auth enable, policy write, token create, with the released
// client's flags and values. Like that client, it sends values as strings.
func client(ctx context.Context, args []string) error {
	c, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		return err
	}
	verb := args[0]
	if verb == "secrets" || verb == "auth" || verb == "policy" || verb == "token" {
		verb, args = verb+" "+args[1], args[1:]
	}
	flags, words, values := parse(args[1:])
	at := ""
	if len(words) > 0 {
		at = words[0]
	}
	switch verb {
	case "read":
		return show(flags["field"])(c.Logical().ReadWithContext(ctx, at))
	case "delete":
		_, err = c.Logical().DeleteWithContext(ctx, at)
	case "write":
		return show(flags["field"])(c.Logical().WriteWithContext(ctx, at, values))
	case "patch":
		return show(flags["field"])(c.Logical().JSONMergePatch(ctx, at, values))
	case "list":
		s, listErr := c.Logical().ListWithContext(ctx, at)
		if err = listErr; err == nil && s != nil {
			keys, _ := s.Data["keys"].([]any)
			for _, k := range keys {
				fmt.Printf("- %s\n", k) // the format of -format=yaml
			}
		}
	case "secrets enable":
		err = c.Sys().MountWithContext(ctx, flags["path"], &api.MountInput{Type: at, Config: api.MountConfigInput{MaxLeaseTTL: flags["max-lease-ttl"]}})
	case "secrets tune":
		err = c.Sys().TuneMountWithContext(ctx, at, api.MountConfigInput{MaxLeaseTTL: flags["max-lease-ttl"]})
	case "auth enable":
		err = c.Sys().EnableAuthWithOptionsWithContext(ctx, flags["path"], &api.EnableAuthOptions{Type: at})
	case "policy write":
		rules, readErr := io.ReadAll(os.Stdin)
		if err = readErr; err == nil {
			err = c.Sys().PutPolicyWithContext(ctx, at, string(rules))
		}
	case "token create":
		_, orphan := flags["orphan"]
		s, makeErr := c.Auth().Token().CreateWithContext(ctx, &api.TokenCreateRequest{
			Policies: []string{flags["policy"]}, Period: flags["period"], TTL: flags["ttl"], ExplicitMaxTTL: flags["explicit-max-ttl"], NoParent: orphan,
		})
		if err = makeErr; err == nil {
			fmt.Println(s.Auth.ClientToken)
		}
	default:
		err = fmt.Errorf("there is no command %s", verb)
	}
	return err
}

// parse separates flags, words and values.
func parse(args []string) (flags map[string]string, words []string, values map[string]any) {
	flags, values = map[string]string{}, map[string]any{}
	for _, a := range args {
		key, value, given := strings.Cut(a, "=")
		switch {
		case strings.HasPrefix(a, "-") && a != "-":
			flags[strings.TrimLeft(key, "-")] = value
		case given:
			values[key] = value
		default:
			words = append(words, a)
		}
	}
	return flags, words, values
}

// show prints one field of an answer, or nothing.
func show(field string) func(*api.Secret, error) error {
	return func(s *api.Secret, err error) error {
		switch {
		case err != nil:
			return err
		case field != "" && (s == nil || s.Data[field] == nil):
			return fmt.Errorf("there is no %s", field)
		case field != "":
			fmt.Println(s.Data[field])
		}
		return nil
	}
}
