// An authorization server for tests: oidc-provider with the client credentials grant. /issued counts the tokens.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [, , dir] = process.argv
const load = (name) => import(pathToFileURL(createRequire(join(dir, 'index.js')).resolve(name)))
const { default: Provider } = await load('oidc-provider')
let handle, provider
let issued = 0

const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://127.0.0.1')
  if (url.pathname === '/issued') return response.end(String(issued))
  if (url.pathname === '/valid') {
    const token = await provider.ClientCredentials.find(url.searchParams.get('token'))
    return response.end(String(Boolean(token && token.isValid && token.clientId === 'espalier')))
  }
  handle(request, response)
})
server.listen(0, '127.0.0.1', () => {
  const issuer = 'http://127.0.0.1:' + server.address().port
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'espalier', client_secret: 'hidden', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'],
    }],
    cookies: { keys: ['secret'] },
    ttl: { ClientCredentials: 600 },
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
  })
  provider.on('grant.success', () => issued++)
  handle = provider.callback()
  console.log(issuer)
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
