// Serves site/dist as GitHub Pages would: files, index.html of folders, and 404.html
// for the rest. As a program it previews: node tools/serve.mjs [--base /kplan/] [--port 4173]
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const types = {
  '.css': 'text/css', '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.woff2': 'font/woff2',
}

/** serve returns a server of dir at base, and its address; port 0 is any that is free. */
export function serve(dir, { base = '/', port = 0 } = {}) {
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost')
    const name = pathname.startsWith(base) ? path.normalize(decodeURIComponent(pathname.slice(base.length))) : '404.html'
    let file = path.join(dir, name.startsWith('..') ? '404.html' : name)
    if (fs.statSync(file, { throwIfNoEntry: false })?.isDirectory()) file = path.join(file, 'index.html')
    const found = pathname.startsWith(base) && fs.existsSync(file)
    if (!found) file = path.join(dir, '404.html')
    response.writeHead(found ? 200 : 404, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' })
    if (request.method === 'HEAD') response.end()
    else fs.createReadStream(file).pipe(response)
  })
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}${base}` }))
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { base: { type: 'string', default: '/' }, port: { type: 'string', default: '4173' } } })
  const { url } = await serve(fileURLToPath(new URL('../dist', import.meta.url)), { base: values.base, port: Number(values.port) })
  console.log(`the site is at ${url}`)
}
