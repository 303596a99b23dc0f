// A client with the official TypeScript SDK. It calls a tool, prints the first progress that names a step, and leaves.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [, , dir, address, token, tool] = process.argv
const load = (name) => import(pathToFileURL(createRequire(join(dir, 'index.js')).resolve('@modelcontextprotocol/sdk/' + name)))
const { Client } = await load('client/index.js')
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js')

const client = new Client({ name: 'test', version: '1' })
await client.connect(new StreamableHTTPClientTransport(new URL(address), {
  requestInit: { headers: { Authorization: 'Bearer ' + token } },
}))
const leave = new AbortController()
client.callTool({ name: tool, arguments: { who: 'Ann' } }, undefined, {
  signal: leave.signal,
  onprogress: ({ progress, message }) => {
    if (leave.signal.aborted || !message.startsWith('step.started')) return
    console.log(JSON.stringify({ progress, message }))
    leave.abort()
  },
}).catch(() => {}).finally(async () => {
  await client.close()
  console.log('left')
})
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
