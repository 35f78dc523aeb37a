package signin

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/issuer"
)

// byCode signs the user in by a code that is entered in a browser on any device.
func (h Host) byCode(ctx context.Context, p *oidc.Provider, how issuer.SignIn) (*session, string, error) {
	o := oauth2.Config{ClientID: how.ClientID, Endpoint: p.Endpoint(), Scopes: how.Scopes}
	if o.Endpoint.DeviceAuthURL == "" {
		return nil, "", fail.New(fail.Refused, "the provider has no device flow").At(how.Issuer).Do("leave out --device")
	}
	code, err := o.DeviceAuth(ctx)
	if err != nil {
		return nil, "", refused(err)
	}
	text := fmt.Sprintf("Open %s in any browser and enter the code %s\n", words.Line(code.VerificationURI), words.Line(code.UserCode))
	if code.VerificationURIComplete != "" {
		text += fmt.Sprintf("or open %s\n", words.Line(code.VerificationURIComplete))
	}
	if _, err := fmt.Fprint(h.Err, text); err != nil {
		return nil, "", err
	}
	got, err := o.DeviceAccessToken(ctx, code)
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		return nil, "", fail.New(fail.Unauthorized, "the code was not entered in time").Do("begin again, and give more --timeout")
	case err != nil:
		return nil, "", refused(err)
	}
	s := &session{SignIn: how}
	token, err := s.take(ctx, p, got)
	if err != nil {
		return nil, "", err
	}
	return s, who(token), nil
}

// signInOf converts a cluster's description of an issuer.
func signInOf(i *cluster.SignIn) issuer.SignIn {
	return issuer.SignIn{Issuer: i.URL, ClientID: i.ClientID, Scopes: i.Scopes, CA: string(i.CA)}
}

// keyOf identifies a sign-in with an issuer: several clusters may share it.
func keyOf(how issuer.SignIn) string { return how.Issuer + "#" + how.ClientID }

// toCluster signs the user in to a cluster.
func (h Host) toCluster(ctx context.Context, name string, f *flags) error {
	e, err := h.Entrance(ctx, name)
	if err != nil {
		return err
	}
	i, err := e.Choose(name, f.issuer)
	if err != nil {
		return err
	}
	dir, err := h.Dir()
	if err != nil {
		return err
	}
	how, at := signInOf(i), *f
	at.port = cmp.Or(f.port, i.Port)
	s, who, err := h.signIn(ctx, how, &at)
	if err != nil {
		return err
	}
	if err := s.write(file(dir, keyOf(how))); err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.Out, "Signed in to cluster %s as %s, with issuer %s.\nnaupegos kubeconfig %s --exec --merge lets kubectl use it.\n", name, who, i.Name, name)
	return err
}

func (h Host) outOfCluster(ctx context.Context, name string) error {
	e, err := h.Entrance(ctx, name)
	if err != nil {
		return err
	}
	dir, err := h.Dir()
	if err != nil {
		return err
	}
	for i := range e.Issuers {
		if err := remove(file(dir, keyOf(signInOf(&e.Issuers[i])))); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(h.Out, "Signed out of cluster %s.\n", name)
	return err
}

// execInfo is the environment variable in which kubectl says how it runs the plugin.
const execInfo = "KUBERNETES_EXEC_INFO"

// execCredential is the ExecCredential of client.authentication.k8s.io/v1 in which client-go takes a token.
type execCredential struct {
	metav1.TypeMeta
	Spec struct {
		Interactive bool `json:"interactive"`
	} `json:"spec"`
	Status *execStatus `json:"status,omitempty"`
}

type execStatus struct {
	Expires metav1.Time `json:"expirationTimestamp"`
	Token   string      `json:"token"`
}

// NewGetToken returns naupegos get-token.
func NewGetToken(h Host) *cobra.Command {
	var f flags
	var how issuer.SignIn
	var ca string
	c := &cobra.Command{
		Use:   "get-token",
		Short: "Print a token for kubectl (a kubeconfig of kubeconfig --exec runs this)",
		Long: `Print an ID token of an OpenID Connect provider as a client-go ExecCredential. Kubeconfigs that naupegos kubeconfig --exec
writes run this command. It needs no store: its flags say all that it needs.

The token of naupegos login is used, and renewed. If you have not signed in with the issuer on this machine, or the
sign-in is over, the command signs you in as naupegos login does, unless kubectl says that it runs without a terminal.`,
		Example: "  naupegos get-token --issuer https://login.example.org --client-id kubernetes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := base64.StdEncoding.DecodeString(ca)
			if err != nil {
				return fail.Wrap(fail.Invalid, err, "--issuer-ca-data is not base64").Do("naupegos kubeconfig NAME --exec writes the kubeconfig again")
			}
			how.CA = string(data)
			if how.Issuer == "" || how.ClientID == "" {
				return fail.New(fail.Invalid, "--issuer and --client-id are required")
			}
			return h.getToken(cmd.Context(), how, &f)
		},
	}
	f.bind(c)
	c.Flags().StringVar(&how.Issuer, "issuer", "", "URL of the issuer")
	c.Flags().StringVar(&how.ClientID, "client-id", "", "client ID")
	c.Flags().StringSliceVar(&how.Scopes, "scope", []string{oidc.ScopeOpenID}, "scope to ask for (repeatable)")
	c.Flags().StringVar(&ca, "issuer-ca-data", "", "certificate (PEM) of the authority that vouches for the issuer, in base64")
	return c
}

func (h Host) getToken(ctx context.Context, how issuer.SignIn, f *flags) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	dir, err := h.Dir()
	if err != nil {
		return err
	}
	asked := execCredential{}
	asked.Spec.Interactive = true
	if text := os.Getenv(execInfo); text != "" {
		if err := json.Unmarshal([]byte(text), &asked); err != nil {
			return fail.Wrap(fail.Invalid, err, "read $%s", execInfo)
		}
	}
	s, err := current(ctx, file(dir, keyOf(how)), func() (*session, error) {
		if !asked.Spec.Interactive {
			return nil, fail.New(fail.Unauthorized, "not signed in on this machine, or the sign-in is over").At(how.Issuer).
				Do("run in a terminal: naupegos get-token --issuer %s --client-id %s --scope %s", how.Issuer, how.ClientID, strings.Join(how.Scopes, ","))
		}
		s, _, err := h.signIn(ctx, how, f)
		return s, err
	})
	if err != nil {
		return err
	}
	out := execCredential{Status: &execStatus{metav1.NewTime(s.Expires.Add(-early).Truncate(time.Second)), s.IDToken}}
	out.Kind, out.APIVersion = "ExecCredential", "client.authentication.k8s.io/v1"
	data, err := json.Marshal(out) // the token is what kubectl asks for
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the token")
	}
	_, err = h.Out.Write(append(data, '\n'))
	return err
}
