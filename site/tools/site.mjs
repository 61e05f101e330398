// Builds the site into site/dist: this tree as main, and with --tags the newest tag
// of each minor version from a copy of it. Usage:
//
//   node tools/site.mjs [--base /kplan/] [--tags]
//
// The variable KPLAN names a kplan that is built already, which makes the example of
// a report; else Go builds one.
import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { assemble, minors } from './versions.mjs'

const site = fileURLToPath(new URL('..', import.meta.url))
const root = path.join(site, '..')
const dist = path.join(site, 'dist')

/** run runs a program, which says itself what fails. */
function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options })
  if (error) throw error
  if (status !== 0) throw new Error(`${path.basename(command)} ${args[0]} failed`)
}

/** build makes the pages of a tree, and its example of a report, in out. */
function build(tree, out, { base, version, ref }) {
  const env = { ...process.env, SITE_BASE: base, SITE_VERSION: version, SITE_REF: ref }
  run(process.execPath, ['node_modules/vitepress/bin/vitepress.js', 'build', '--outDir', out], { cwd: path.join(tree, 'site'), env })
  fs.mkdirSync(path.join(out, 'report'))
  const report = ['replay', 'lab/race/run.jsonl', '--report', `html=${path.join(out, 'report', 'race.html')}`]
  if (process.env.KPLAN) run(path.resolve(root, process.env.KPLAN), report, { cwd: tree })
  else run('go', ['run', './cmd/kplan', ...report], { cwd: tree })
  fs.chmodSync(path.join(out, 'report', 'race.html'), 0o644) // kplan writes it for its owner only
}

/** buildTag makes those of a tag; false if there was no site yet. */
function buildTag(tag, out, options) {
  const tree = fs.mkdtempSync(path.join(os.tmpdir(), 'kplan-site-'))
  try {
    run('git', ['-C', root, 'worktree', 'add', '--detach', '--quiet', tree, tag])
    if (!fs.existsSync(path.join(tree, 'site', 'package-lock.json'))) return false
    run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: path.join(tree, 'site') })
    build(tree, out, options)
    return true
  } finally {
    run('git', ['-C', root, 'worktree', 'remove', '--force', tree])
  }
}

const { values } = parseArgs({ options: { base: { type: 'string', default: '/' }, tags: { type: 'boolean', default: false } } })
const base = `/${values.base}/`.replace(/\/+/g, '/')
fs.rmSync(dist, { recursive: true, force: true })
const names = []
if (values.tags) {
  const tags = execFileSync('git', ['-C', root, 'tag', '--list', 'v*'], { encoding: 'utf8' }).split('\n')
  for (const { name, tag } of minors(tags)) {
    if (buildTag(tag, path.join(dist, name), { base, version: name, ref: tag })) names.push(name)
    else console.warn(`${tag} has no site: left out`)
  }
}
build(root, path.join(dist, 'main'), { base, version: 'main', ref: 'main' })
assemble(dist, base, [...names, 'main'])
