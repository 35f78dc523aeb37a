package access

import "github.com/naupegos/naupegos/internal/peer"

// Rate limits of operators and addresses.
const (
	perToken, burstToken = 50, 200 // requests a second
	burstWrong           = 10      // wrong tokens from one address at once
	perWrong             = 0.2     // wrong tokens a second after that
	most                 = 10_000  // size of each table
)

// limits holds the rates of valid tokens, and of wrong tokens by address.
type limits struct{ tokens, wrong *peer.Rates }

func newLimits() *limits {
	return &limits{tokens: peer.NewRates(perToken, burstToken, most), wrong: peer.NewRates(perWrong, burstWrong, most)}
}

// mayAsk counts a request of a token.
func (l *limits) mayAsk(token string) bool { return l.tokens.Allow(token) }

// mayTry reports whether an address may try once more. Each kind of attempt counts by itself.
func (l *limits) mayTry(kind, from string) bool { return l.wrong.Would(kind + peer.Key(from)) }

// failed counts a failed attempt of an address.
func (l *limits) failed(kind, from string) { l.wrong.Allow(kind + peer.Key(from)) }
