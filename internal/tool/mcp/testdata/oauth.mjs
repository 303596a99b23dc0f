// An authorization server for tests: oidc-provider with the client credentials grant, and with its development pages on
// which a person signs in. /issued counts the tokens, /valid checks one, /revoke?token= ends one, and /end ends all that
// people have allowed.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [, , dir] = process.argv
const load = (name) => import(pathToFileURL(createRequire(join(dir, 'index.js')).resolve(name)))
const { default: Provider } = await load('oidc-provider')
let handle, provider
let issued = 0
const grants = new Set()

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://127.0.0.1')
  const text = url.searchParams.get('token')
  if (url.pathname === '/issued') return response.end(String(issued))
  if (url.pathname === '/valid') {
    const token = (await provider.ClientCredentials.find(text)) ?? (await provider.AccessToken.find(text))
    return response.end(String(Boolean(token && token.isValid)))
  }
  if (url.pathname === '/revoke') {
    await (await provider.AccessToken.find(text)).destroy()
    return response.end('ok')
  }
  if (url.pathname === '/end') {
    for (const id of grants) {
      await provider.AccessToken.revokeByGrantId(id)
      await provider.RefreshToken.revokeByGrantId(id)
    }
    return response.end('ok')
  }
  handle(request, response)
})
server.listen(0, '127.0.0.1', () => {
  const issuer = 'http://127.0.0.1:' + server.address().port
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'espalier', client_secret: 'hidden', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'],
    }, {
      client_id: 'public', application_type: 'native', token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/callback'], grant_types: ['authorization_code', 'refresh_token'],
    }],
    cookies: { keys: ['secret'] },
    ttl: { ClientCredentials: 600, AccessToken: 600, RefreshToken: 600, Grant: 600, Session: 600, Interaction: 600 },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    features: {
      clientCredentials: { enabled: true }, devInteractions: { enabled: true }, registration: { enabled: true },
      resourceIndicators: {
        enabled: true, getResourceServerInfo: () => ({ scope: 'tools', accessTokenFormat: 'opaque' }),
        useGrantedResource: () => true,
      },
    },
  })
  provider.on('grant.success', () => issued++)
  provider.on('access_token.saved', (token) => grants.add(token.grantId))
  handle = provider.callback()
  console.log(issuer)
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
