// What text of a page is hard to read.

/**
 * unreadable runs in a page. It names texts whose contrast with what is behind them is
 * below 4.5, as WCAG counts, or 3 for large ones. What is not shown, and what lies on
 * a picture, is left out.
 */
export function unreadable() {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const colours = new Map()
  /** parse returns red, green, blue and opacity of any colour that CSS can say. */
  const parse = (css) => {
    if (!colours.has(css)) {
      canvas.clearRect(0, 0, 1, 1)
      canvas.fillStyle = css
      canvas.fillRect(0, 0, 1, 1)
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
      colours.set(css, [r, g, b, a / 255])
    }
    return colours.get(css)
  }
  const over = ([r, g, b, a], ground) => [r, g, b].map((c, i) => c * a + ground[i] * (1 - a))
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ground = (element) => {
    if (!element) return [255, 255, 255]
    const colour = parse(getComputedStyle(element).backgroundColor)
    return colour[3] === 1 ? colour.slice(0, 3) : over(colour, ground(element.parentElement))
  }
  const faults = new Set()
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement
    const text = texts.currentNode.textContent.trim()
    if (!text || element.closest('svg, script, style, noscript, select, .visually-hidden, .VPSkipLink, .header-anchor')) continue
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue
    const style = getComputedStyle(element)
    const behind = ground(element)
    const [a, b] = [luminance(over(parse(style.color), behind)), luminance(behind)]
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize)
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)
    if (contrast < (large ? 3 : 4.5)) {
      faults.add(`contrast ${contrast.toFixed(2)} of ${style.color}: ${element.tagName}.${element.className} ${text.slice(0, 40)}`)
    }
  }
  return [...faults].slice(0, 8)
}
