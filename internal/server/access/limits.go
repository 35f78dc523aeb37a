package access

import "github.com/naupegos/naupegos/internal/peer"

// Bounds on how often an operator or an address may ask.
const (
	perToken, burstToken = 50, 200 // requests a second
	burstWrong           = 10      // wrong tokens from one address, and then
	perWrong             = 0.2     // so many a second
	most                 = 10_000  // addresses and tokens that are remembered
)

// limits are the bounds of tokens and of addresses that have shown wrong ones.
type limits struct{ tokens, wrong *peer.Rates }

func newLimits() *limits {
	return &limits{tokens: peer.NewRates(perToken, burstToken, most), wrong: peer.NewRates(perWrong, burstWrong, most)}
}

// mayAsk counts a request of a token.
func (l *limits) mayAsk(token string) bool { return l.tokens.Allow(token) }

// mayTry reports whether an address may show another token.
func (l *limits) mayTry(from string) bool { return l.wrong.Would(peer.Key(from)) }

// failed counts a wrong token from an address.
func (l *limits) failed(from string) { l.wrong.Allow(peer.Key(from)) }
