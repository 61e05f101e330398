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

/** pagesIn lists the pages of one folder, by title; the index is not among them. */
export function pagesIn(docs, dir) {
  const folder = path.join(docs, dir)
  if (!fs.existsSync(folder)) return []
  return fs.readdirSync(folder)
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .map((name) => {
      const text = titleOf(fs.readFileSync(path.join(folder, name), 'utf8'))
      if (!text) throw new Error(`docs/${dir}/${name} has no heading`)
      return { text, link: `/${dir}/${name.replace(/\.md$/, '')}` }
    })
    .sort((a, b) => a.text.localeCompare(b.text, 'en'))
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
