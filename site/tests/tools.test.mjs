// What the tools decide, without building anything.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { createMarkdownRenderer } from 'vitepress'
import { plugin, published, resolve, slug } from '../.vitepress/links.mjs'
import { sidebar, titleOf } from '../.vitepress/pages.mjs'
import { assemble, minors } from '../tools/versions.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const options = { root, base: '/kplan/v1.2/', ref: 'v1.2.3' }
const source = 'https://github.com/kplan-dev/kplan'

test('links to files of the repository lead to their source', () => {
  for (const [href, want] of [
    ['events.md#fields', 'events.md#fields'],
    ['../how-to/ci.md', '../how-to/ci.md'],
    ['#here', '#here'],
    ['https://example.com/', 'https://example.com/'],
    ['../../lab/race/plan.yaml', `${source}/blob/v1.2.3/lab/race/plan.yaml`],
    ['../../bench/README.md#unchanged-objects', `${source}/blob/v1.2.3/bench/README.md#unchanged-objects`],
    ['../../lab/race', `${source}/tree/v1.2.3/lab/race`],
    [`${published}report/race.html`, '/kplan/v1.2/report/race.html'],
  ]) assert.equal(resolve(href, 'reference/page.md', options).href, want, href)
  assert.throws(() => resolve('../../lab/none', 'reference/page.md', options), /lab\/none, which is not there/)
})

test('anchors are those of GitHub', () => {
  for (const [text, want] of [
    ['Unchanged objects', 'unchanged-objects'], ['A b & c', 'a-b--c'], ['--report of a run', '--report-of-a-run'], ["What's this?", 'whats-this'],
  ]) assert.equal(slug(text), want)
})

test('a title is the first heading, and no comment of a script', () => {
  assert.equal(titleOf('```sh\n# a comment\n```\n# The `title`\n'), 'The title')
  assert.equal(titleOf('## kplan run\n'), 'kplan run')
  assert.equal(titleOf('text'), '')
})

test('a page of a command has one title', async () => {
  const md = await createMarkdownRenderer(root, { config: (md) => plugin(md, options) })
  const html = md.render('## kplan run\n\ntext\n  # of help ${{ x }}\n\n### Options\n', { relativePath: 'reference/cli/kplan_run.md' })
  assert.deepEqual(html.match(/<h\d/g), ['<h1', '<h2'])
  assert.match(html, /<p[^>]*>of help/)
  assert.match(html, /\$&#123;&#123; x/)
})

test('the sidebar has a page for each file, in the order of the index', () => {
  const docs = fs.mkdtempSync(path.join(os.tmpdir(), 'docs-'))
  fs.mkdirSync(path.join(docs, 'reference', 'cli'), { recursive: true })
  for (const [name, title] of [['b', '# Apes'], ['a', '# Bees'], ['c', '# Cats'], ['index', '# Reference\n- [Cats](c.md#tails)\n- [Cats](c.md)'], ['cli/kplan', '## kplan']]) {
    fs.writeFileSync(path.join(docs, 'reference', `${name}.md`), title)
  }
  assert.deepEqual(sidebar(docs), [{
    text: 'Reference',
    link: '/reference/',
    items: [
      { text: 'Cats', link: '/reference/c' },
      { text: 'Apes', link: '/reference/b' },
      { text: 'Bees', link: '/reference/a' },
      { text: 'Commands', collapsed: true, items: [{ text: 'kplan', link: '/reference/cli/kplan' }] },
    ],
  }])
  fs.rmSync(docs, { recursive: true })
})

test('a site keeps the newest patch of each minor version', () => {
  assert.deepEqual(minors(['v0.2.0', 'v0.10.0', 'v0.2.10', 'v0.2.9', 'v1.0.0-rc.1', 'v0.1.0', 'other', '']), [
    { name: 'v0.10', tag: 'v0.10.0' }, { name: 'v0.2', tag: 'v0.2.10' }, { name: 'v0.1', tag: 'v0.1.0' },
  ])
})

test('the first page leads to the newest release', () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'site-'))
  for (const name of ['v0.2', 'v0.1', 'main']) {
    fs.mkdirSync(path.join(dir, name))
    for (const page of ['index.html', '404.html']) fs.writeFileSync(path.join(dir, name, page), `${page} of ${name}`)
  }
  assemble(dir, '/kplan/', ['v0.2', 'v0.1', 'main'])
  assert.match(fs.readFileSync(path.join(dir, 'index.html'), 'utf8'), /url=\/kplan\/v0\.2\//)
  assert.equal(fs.readFileSync(path.join(dir, '404.html'), 'utf8'), '404.html of v0.2')
  assert.deepEqual(JSON.parse(fs.readFileSync(path.join(dir, 'versions.json'))).map((v) => v.path), ['v0.2/', 'v0.1/', 'main/'])
  assert.throws(() => assemble(dir, '/', ['v0.3']), /v0\.3 has no first page/)
  fs.rmSync(dir, { recursive: true })
})
