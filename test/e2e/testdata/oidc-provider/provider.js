// An OpenID provider for tests: people sign in with any name and password, and are in the group "platform".
import fs from 'node:fs';
import https from 'node:https';
import { Provider } from 'oidc-provider';

const [issuer, port, cert, key] = process.argv.slice(2);

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'kubernetes',
    token_endpoint_auth_method: 'none',
    application_type: 'native',
    redirect_uris: ['http://127.0.0.1/callback'],
    response_types: ['code'],
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
  }],
  claims: { openid: ['sub'], profile: ['groups', 'preferred_username'], email: ['email'] },
  scopes: ['openid', 'offline_access', 'profile', 'email'],
  conformIdTokenClaims: false,
  features: { deviceFlow: { enabled: true } },
  cookies: { keys: ['not a secret'] },
  findAccount: async (_, sub) => ({
    accountId: sub,
    claims: async () => ({ sub, preferred_username: sub, email: `${sub}@example.org`, groups: ['platform'] }),
  }),
});
https.createServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }, provider.callback()).listen(Number(port), () => console.log('ready'));
