// An OpenID Connect provider for tests: oidc-provider, with its development
// pages for signing in. Besides, /mint signs ID tokens with any claims, and
// /rotate replaces the key.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [, , dir, redirect] = process.argv
const load = (name) => import(pathToFileURL(createRequire(join(dir, 'index.js')).resolve(name)))
const { default: Provider } = await load('oidc-provider')
const { generateKeyPair, exportJWK, SignJWT } = await load('jose')

const people = {
  ana: { email: 'ana@example.org', email_verified: true, groups: ['writers', 'staff'] },
  ben: { email: 'ben@example.org', email_verified: true, groups: ['guests'] },
  eve: { email: 'eve@example.org', email_verified: false, groups: ['writers'] },
  root: { email: 'root@example.org', email_verified: true, groups: ['writers'] },
}

let issuer, key, previous, handle
let number = 0

async function replace() {
  previous = key
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const kid = 'key' + ++number
  key = { privateKey, kid }
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'espalier', client_secret: 'hidden', redirect_uris: [redirect] }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid, alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['secret'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
    features: { devInteractions: { enabled: true } },
  })
  handle = provider.callback()
}

async function mint(url, response) {
  const q = url.searchParams
  const from = q.get('key') === 'old' ? previous : key
  const now = Math.floor(Date.now() / 1000)
  const token = await new SignJWT({ ...people[q.get('sub')] })
    .setProtectedHeader({ alg: 'RS256', kid: from.kid })
    .setIssuer(q.get('iss') ?? issuer).setAudience(q.get('aud') ?? 'espalier').setSubject(q.get('sub'))
    .setIssuedAt(now - 7200).setExpirationTime(now + Number(q.get('ttl') ?? 3600))
    .sign(from.privateKey)
  response.end(token)
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, issuer)
  if (url.pathname === '/mint') return mint(url, response)
  if (url.pathname === '/rotate') {
    await replace()
    return response.end('ok')
  }
  handle(request, response)
})
server.listen(0, '127.0.0.1', async () => {
  issuer = 'http://127.0.0.1:' + server.address().port
  await replace()
  console.log(issuer)
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
