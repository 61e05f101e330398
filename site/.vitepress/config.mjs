// How VitePress makes the site of ../docs. tools/site.mjs sets the variables; without
// them it is the site of a working tree, at /main/.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { plugin, repository, slug } from './links.mjs'
import { generated, sections, sidebar, titleOf } from './pages.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const docs = path.join(root, 'docs')
const { SITE_BASE: home = '/', SITE_VERSION: version = 'main', SITE_REF: ref = 'main' } = process.env
const base = `${home}${version}/`

const icon = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#14566b"/>' +
  '<path d="M11 7v18M21 12l-9 7m4-3 6 9" stroke="#fff" stroke-width="3" fill="none" stroke-linecap="round"/></svg>')

export default defineConfig({
  title: 'kplan',
  description: 'Install plans for Kubernetes that hold requests until webhooks can answer.',
  lang: 'en',
  base,
  srcDir: '../docs',
  head: [['link', { rel: 'icon', href: icon }]],
  markdown: {
    config: (md) => plugin(md, { root, base, ref }),
    anchor: { slugify: slug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    languageAlias: { console: 'shellsession' },
  },
  transformPageData(page) {
    if (!page.title) page.title = titleOf(fs.readFileSync(path.join(docs, page.relativePath), 'utf8'))
    if (generated.test(page.relativePath)) page.frontmatter.editLink = false
  },
  vite: {
    build: { chunkSizeWarningLimit: 1500 }, // the index of the search is large
    plugins: [{
      // Pages are outside of this folder, where Node would look for Vue in vain.
      name: 'kplan-vue',
      enforce: 'pre',
      resolveId: (id, _, { ssr }) => ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : null,
    }],
  },
  themeConfig: {
    home,
    version,
    nav: sections.filter(({ dir }) => fs.existsSync(path.join(docs, dir, 'index.md')))
      .map(({ dir, text }) => ({ text, link: `/${dir}/`, activeMatch: `/${dir}/` })),
    sidebar: sidebar(docs),
    outline: [2, 3],
    search: { provider: 'local' },
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    socialLinks: [{ icon: 'github', link: repository, ariaLabel: 'kplan on GitHub' }],
    externalLinkIcon: true,
    notFound: { title: 'There is no such page', quote: 'It may have moved: the search above finds pages by their words.', linkText: 'To the first page' },
  },
})
