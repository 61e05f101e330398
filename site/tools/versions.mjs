// Puts the builds of several versions into one site: which versions there are, and
// what stands above them.
import fs from 'node:fs'
import path from 'node:path'

/**
 * minors picks the newest release of each minor version from tags, the newest first:
 * v1.2.3 is kept as v1.2. Releases to try, such as v1.2.0-rc.1, are not kept.
 */
export function minors(tags) {
  const newest = new Map()
  for (const tag of tags) {
    const m = /^v(\d+)\.(\d+)\.(\d+)$/.exec(tag)
    if (!m) continue
    const [major, minor, patch] = m.slice(1).map(Number)
    const name = `v${major}.${minor}`
    if (!(newest.get(name)?.patch > patch)) newest.set(name, { name, tag, major, minor, patch })
  }
  return [...newest.values()]
    .sort((a, b) => b.major - a.major || b.minor - a.minor)
    .map(({ name, tag }) => ({ name, tag }))
}

/**
 * assemble writes what is above the versions in dir, whose folders are names: the list
 * of them, a first page that leads to the first of them, and the page for what is not
 * there. Each folder must have pages.
 */
export function assemble(dir, base, names) {
  for (const name of names) {
    if (!fs.existsSync(path.join(dir, name, 'index.html'))) throw new Error(`${name} has no first page in ${dir}`)
  }
  const first = `${base}${names[0]}/`
  fs.writeFileSync(path.join(dir, 'versions.json'), JSON.stringify(names.map((name) => ({ name, path: `${name}/` })), null, 2) + '\n')
  fs.writeFileSync(path.join(dir, 'index.html'), `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="0; url=${first}">
<link rel="icon" href="data:,">
<link rel="canonical" href="${first}">
<title>kplan</title>
<p><a href="${first}">The documentation of kplan ${names[0]}</a></p>
</html>
`)
  fs.copyFileSync(path.join(dir, names[0], '404.html'), path.join(dir, '404.html'))
  fs.writeFileSync(path.join(dir, '.nojekyll'), '')
}
