// Opens every page of site/dist in Chromium, as make site built it. SITE_BASE is the
// base that it was built with, CHROMIUM the browser.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test, { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { serve } from '../tools/serve.mjs'
import { unreadable } from './contrast.mjs'

const dist = fileURLToPath(new URL('../dist', import.meta.url))
const base = process.env.SITE_BASE ?? '/'
const phone = { width: 360, height: 720 }
const desk = { width: 1280, height: 900 }

/** patience is for machines that have other things to do. */
const patience = 300_000

let browser, server, url
before(async () => {
  ({ server, url } = await serve(dist, { base }))
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  })
})
after(async () => {
  await browser?.close()
  server?.close()
})

/** open returns a new page. */
async function open(options) {
  const page = await browser.newPage(options)
  page.setDefaultTimeout(patience)
  return page
}

/** alive waits until the page takes keys and clicks: its text is there before its scripts. */
const alive = (page) => page.waitForFunction(() => document.querySelector('#app').__vue_app__)

/** pages are the addresses of all pages of main, from its root on. */
function pages() {
  return fs.readdirSync(path.join(dist, 'main'), { recursive: true })
    .map((name) => name.split(path.sep).join('/'))
    .filter((name) => name.endsWith('.html') && name !== '404.html')
    .sort()
}

/** visit opens pages one after the other and collects what look finds wrong with each. */
async function visit(options, names, look) {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  const faults = []
  let name
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) faults.push(`${name}: console: ${m.text()}`) })
  page.on('pageerror', (e) => faults.push(`${name}: ${e}`))
  page.on('requestfailed', (r) => {
    const unused = options.javaScriptEnabled === false && r.url().endsWith('.js') // asked for ahead of the scripts
    if (!unused && r.failure().errorText !== 'net::ERR_ABORTED') faults.push(`${name}: not loaded: ${r.url()}`)
  })
  page.on('request', (r) => { if (!/^(data:|blob:)/.test(r.url()) && !r.url().startsWith(url)) faults.push(`${name}: asks ${r.url()}`) })
  for (name of names) {
    const answer = await page.goto(`${url}main/${name}`, { waitUntil: 'load' })
    if (!answer.ok()) faults.push(`${name}: ${answer.status()}`)
    for (const fault of await look(page, name)) faults.push(`${name}: ${fault}`)
  }
  await context.close()
  assert.deepEqual(faults, [])
}

/** wide names what makes a page scroll sideways. */
function wide(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= width && document.body.scrollWidth <= width) return []
    return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > width + 1)
      .slice(-2).map((e) => `wider than ${width}: ${e.tagName} ${e.textContent.trim().slice(0, 60)}`)
      .concat('the body scrolls sideways')
  })
}

/** images names pictures that were not shown. */
function images(page) {
  return page.evaluate(async () => {
    const all = [...document.images]
    await Promise.all(all.map((i) => i.decode().catch(() => {})))
    return all.filter((i) => !i.naturalWidth).map((i) => `no picture: ${i.currentSrc}`)
  })
}

test('the site has its pages', () => {
  const all = pages()
  for (const name of ['index.html', 'how-to/install.html', 'reference/index.html', 'reference/cli/kplan_run.html', 'report/race.html']) {
    assert.ok(all.includes(name), name)
  }
})

test('every page opens on a phone without errors, and nothing scrolls sideways but tables and code', () =>
  visit({ viewport: phone }, pages(), async (page) => [...await wide(page), ...await images(page)]))

for (const colorScheme of ['light', 'dark']) {
  test(`every text has a contrast of 4.5 in ${colorScheme}`, () =>
    visit({ viewport: desk, colorScheme, reducedMotion: 'reduce' }, pages(), (page) => page.evaluate(unreadable)))
}

test('every page can be read without JavaScript, and leads to the others', () =>
  visit({ viewport: phone, javaScriptEnabled: false }, pages().filter((name) => !name.startsWith('report/')), async (page) => {
    const faults = await wide(page)
    const text = await page.locator('main').innerText()
    if (text.length < 80) faults.push(`says only ${text}`)
    if (await page.locator('h1:visible').count() !== 1) faults.push('has not one title')
    for (const part of ['how-to', 'reference', 'explanation']) {
      if (!await page.locator(`.section-links a:visible[href$="/${part}/"]`).count()) faults.push(`does not lead to ${part}`)
    }
    return faults
  }))

test('the search finds a page by its words', async () => {
  const page = await open({ viewport: desk })
  await page.goto(`${url}main/`)
  await alive(page)
  await page.keyboard.press('Control+k')
  await page.locator('#localsearch-input').fill('TRACEPARENT')
  const first = page.locator('#localsearch-list a[href*="/how-to/observability"]').first()
  await first.waitFor()
  await first.click()
  await page.waitForURL(/how-to\/observability/)
  await page.close()
})

test('the menu of versions has those of versions.json, and keeps the page', async () => {
  const page = await open({ viewport: desk })
  await page.route('**/versions.json', (route) => route.fulfill({ json: [{ name: 'v0.1', path: 'v0.1/' }, { name: 'main', path: 'main/' }] }))
  await page.route('**/v0.1/**', (route) => route.fulfill({ contentType: 'text/html', body: '<title>old</title>' }))
  await page.goto(`${url}main/how-to/ci.html`)
  const menu = page.locator('.VPNavBar .version-menu select')
  await alive(page)
  await menu.locator('option[value="v0.1"]').waitFor({ state: 'attached' })
  assert.equal(await menu.inputValue(), 'main')
  await menu.selectOption('v0.1')
  await page.waitForURL(`${url}v0.1/how-to/ci.html`)
  await page.close()
})

test('the pictures follow the colours that the reader chooses', async () => {
  const page = await open({ viewport: desk, colorScheme: 'light' })
  await page.goto(`${url}main/`)
  await alive(page)
  const shown = () => page.evaluate(() => document.querySelector('picture img').currentSrc)
  assert.match(await shown(), /race-wide-light/)
  await page.locator('.VPNavBarAppearance .VPSwitchAppearance').click()
  await page.waitForFunction(() => /race-wide-dark/.test(document.querySelector('picture img').currentSrc))
  await page.setViewportSize(phone)
  await page.waitForFunction(() => /race-narrow-dark/.test(document.querySelector('picture img').currentSrc))
  await page.close()
})

test('the first address leads to a version, and an unknown one to a page that says so', async () => {
  const page = await open({ viewport: desk })
  await page.goto(url)
  await page.waitForURL(`${url}main/`)
  const answer = await page.goto(`${url}main/none.html`)
  assert.equal(answer.status(), 404)
  await page.getByText('There is no such page').waitFor()
  await page.close()
})
