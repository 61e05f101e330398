// What the folders of docs/ hold: the sidebar and the titles are made from it, so
// that a page needs no line anywhere else.
import fs from 'node:fs'
import path from 'node:path'

/** The parts of the documentation, in the order of the sidebar. */
export const sections = [
  { dir: 'tutorial', text: 'Tutorial' },
  { dir: 'how-to', text: 'How-to' },
  { dir: 'reference', text: 'Reference', within: [{ dir: 'reference/cli', text: 'Commands' }] },
  { dir: 'explanation', text: 'Explanation' },
]

/** Pages that programs write: there is nothing to edit in them. */
export const generated = /^reference\/(cli\/|(plan|fleet|event|fleet-event)-fields\.md|functions\.md)/

/** titleOf returns the first heading of a page, as plain text. */
export function titleOf(markdown) {
  const heading = /^#{1,2} +(.+?) *#*$/m.exec(markdown.replace(/^(```|~~~)[\s\S]*?^\1/gm, ''))
  return heading ? heading[1].replace(/[`*]/g, '') : ''
}

/** listed are the pages of a folder to which its index leads, in that order. */
function listed(folder) {
  const index = path.join(folder, 'index.md')
  if (!fs.existsSync(index)) return []
  return [...fs.readFileSync(index, 'utf8').matchAll(/\]\(([^/)#]+)\.md\)/g)].map(([, name]) => name)
}

/**
 * pagesIn lists the pages of one folder as its index does, and those that are not in it
 * by title after them; the index is not among them.
 */
export function pagesIn(docs, dir) {
  const folder = path.join(docs, dir)
  if (!fs.existsSync(folder)) return []
  const order = listed(folder)
  const place = ({ link }) => {
    const at = order.indexOf(path.posix.basename(link))
    return at < 0 ? order.length : at
  }
  return fs.readdirSync(folder)
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .map((name) => {
      const text = titleOf(fs.readFileSync(path.join(folder, name), 'utf8'))
      if (!text) throw new Error(`docs/${dir}/${name} has no heading`)
      return { text, link: `/${dir}/${name.replace(/\.md$/, '')}` }
    })
    .sort((a, b) => place(a) - place(b) || a.text.localeCompare(b.text, 'en'))
}

/** sidebar is what VitePress takes: a group for each part that has pages. */
export function sidebar(docs) {
  return sections.map(({ dir, text, within = [] }) => ({
    text,
    link: fs.existsSync(path.join(docs, dir, 'index.md')) ? `/${dir}/` : undefined,
    items: [
      ...pagesIn(docs, dir),
      ...within.map((w) => ({ text: w.text, collapsed: true, items: pagesIn(docs, w.dir) })),
    ],
  })).filter((group) => group.items.length > 0)
}
