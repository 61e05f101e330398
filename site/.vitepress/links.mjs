// Links as the site needs them. The pages are written for GitHub, where a link to a
// file of the repository is relative; the site does not have these files.
import fs from 'node:fs'
import path from 'node:path'

export const repository = 'https://github.com/kplan-dev/kplan'
/** Where the site is published; pages link to what only the site has by this. */
export const published = 'https://kplan-dev.github.io/kplan/main/'

/**
 * slug makes the anchor of a heading as GitHub does, so that a link to it works in
 * both places. docs/links_test.go has the same rule.
 */
export function slug(text) {
  return text.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-')
}

/**
 * resolve returns what a link of a page is on the site: the source on GitHub for what
 * is outside docs, the site's own address for what only the site has, else itself.
 * A file that is not there is an error.
 */
export function resolve(href, page, { root, base, ref }) {
  if (href.startsWith(published)) return { href: base + href.slice(published.length), own: true }
  if (/^[a-z][a-z0-9+.-]*:|^#|^\//i.test(href)) return { href }
  const [file, anchor] = href.split('#', 2)
  const target = path.posix.normalize(path.posix.join('docs', path.posix.dirname(page), decodeURI(file)))
  if (target.startsWith('docs/')) return { href }
  const stat = fs.statSync(path.join(root, target), { throwIfNoEntry: false })
  if (!stat) throw new Error(`docs/${page} links to ${target}, which is not there`)
  const kind = stat.isDirectory() ? 'tree' : 'blob'
  return { href: `${repository}/${kind}/${ref}/${target}${anchor ? '#' + anchor : ''}` }
}

/** plugin makes markdown-it write the pages of docs as the site needs them. */
export function plugin(md, options) {
  md.core.ruler.push('kplan-links', ({ tokens, env }) => {
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      if (token.type !== 'link_open') continue
      const { href, own } = resolve(token.attrGet('href'), env.relativePath, options)
      token.attrSet('href', href)
      if (own) token.attrSet('target', '_self') // no page that VitePress could open in place
    }
  })
  // Code that is indented looks like code in a fence.
  md.core.ruler.after('block', 'kplan-code', ({ tokens }) => {
    for (const t of tokens) if (t.type === 'code_block') Object.assign(t, { type: 'fence', info: 'sh' })
  })
  // Two braces are an expression of a plan, and none of Vue's.
  for (const rule of ['text', 'code_inline']) {
    const write = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => write(...args).replaceAll('{{', '&#123;&#123;')
  }
  // Pages of commands, which cobra writes, begin with a heading of the second level. One
  // of the first is a line of their help that begins with #.
  md.core.ruler.after('block', 'kplan-headings', ({ tokens }) => {
    const headings = tokens.filter((t) => t.type.startsWith('heading_'))
    if (headings[0]?.tag !== 'h2') return
    for (const h of headings) {
      if (h.tag === 'h1') Object.assign(h, { tag: 'p', type: h.type.replace('heading', 'paragraph') })
      else h.tag = `h${h.tag[1] - 1}`
    }
  })
}
