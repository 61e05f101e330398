// VitePress' own theme, with kplan's colours, a menu of versions, and a way around
// that needs no script.
import DefaultTheme from 'vitepress/theme'
import { useData } from 'vitepress'
import { h, nextTick, onMounted, watch } from 'vue'
import SectionLinks from './SectionLinks.vue'
import VersionMenu from './VersionMenu.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, {
    'nav-bar-content-after': () => h(VersionMenu),
    'nav-screen-content-after': () => h(VersionMenu),
    'doc-after': () => h(SectionLinks),
  }),
  setup() {
    const { isDark, page } = useData()
    onMounted(() => watch([isDark, page], () => nextTick(() => followTheme(isDark.value)), { immediate: true }))
  },
}

/**
 * followTheme shows the pictures of the page's colours. By themselves they follow the
 * system, which is right until the reader chooses the other.
 */
function followTheme(dark) {
  for (const source of document.querySelectorAll('picture source')) {
    source.dataset.media ??= source.media
    source.media = source.dataset.media
      .replace('(prefers-color-scheme: dark)', dark ? 'all' : 'not all')
      .replace(/^(.*) and all$/, '$1')
      .replace(/^.* and not all$/, 'not all')
  }
}
