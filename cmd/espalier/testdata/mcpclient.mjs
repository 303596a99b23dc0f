// A client with the official TypeScript SDK. It starts a run without waiting for it if it is given a workflow, calls a
// tool, prints the first progress that names a step, and leaves. An address that is not one of HTTP is the folder of a
// project, in which it starts "espalier mcp".
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [, , dir, address, token, tool, workflow] = process.argv
const load = (name) => import(pathToFileURL(createRequire(join(dir, 'index.js')).resolve('@modelcontextprotocol/sdk/' + name)))
const { Client } = await load('client/index.js')
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js')
const { StdioClientTransport } = await load('client/stdio.js')

const client = new Client({ name: 'test', version: '1' })
await client.connect(address.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers: { Authorization: 'Bearer ' + token } } })
  : new StdioClientTransport({ command: 'espalier', args: ['mcp'], cwd: address, env: { ...process.env, HOME: address } }))
await client.listTools() // which checks their schemas, and from then on the results of calls
if (workflow) {
  const started = await client.callTool({ name: 'start_run', arguments: { workflow, input: { who: 'Bob' } } })
  console.log(JSON.stringify(started.structuredContent ?? started.content))
}
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
