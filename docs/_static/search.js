// The search of the documentation. It finds sections, not only pages, and shows the sentence in which the words stand.
// All words of all pages come with the page, in sections.js, so it also works on pages that are opened as files.
"use strict";

const FIELDS = { title: 3, heading: 5, text: 1, code: 0.6 }; // what a word is worth, by where it stands
const STOPWORDS = new Set("a an and are as at be but by can do does for from how i if in into is it my no not of on or our".split(" ").concat(
  "should that the their then there these they this to was we what when which who why will with would you your".split(" ")));
const SHOWN = 20; // pages
const EXCERPT = 240; // characters

const FOUND = document.getElementById("found");
const QUERY = document.getElementById("query");

const stem = (word) => {
  const single = word.length > 3 ? word.replace(/ies$/, "y").replace(/(ss|us)$|s$/, "$1") : word;
  return single.length > 4 ? single.replace(/(ing|ed|e)$/, "") : single;
};

// The words of a text, and what they are found by: "set-point" also as "setpoint", `min_dwell` also by its parts.
const words = (text) => {
  const found = [];
  for (const [word] of text.toLowerCase().matchAll(/[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*/gu)) {
    const parts = word.split("-");
    found.push(...parts);
    if (parts.length === 2) found.push(parts.join(""));
    for (const part of parts) if (part.includes("_")) found.push(...part.split("_").filter(Boolean));
  }
  return found;
};

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}_]+/gu, " ").trim();

const isName = (anchor) => /^(module-)?holdcourse\./.test(anchor); // of the Python API

// Guides before reference, and what was decided long ago last.
const weightOf = (page, anchor, heading) => {
  if (/^decisions\/|^plain-words$|^release$/.test(page)) return 0.25;
  if (/^(architecture|record-format|evidence|index)$|^reference\/http$/.test(page)) return 0.6;
  if (isName(anchor)) return /\.[a-z_]+$/.test(heading) ? 0.5 : 0.8; // a name; what belongs to a class
  if (/^reference\//.test(page)) return 0.8;
  return page === "start" ? 1.4 : /^troubleshooting$|^(tutorials|how-to)\//.test(page) ? 1.2 : 1;
};

const sections = [];
const postings = new Map(); // from a stem to the sections in which it stands, with its worth
for (const [page, own] of Object.entries(SECTIONS)) {
  const title = own[0][1];
  for (const [anchor, heading, text, code] of own) {
    const section = { page, title, anchor, heading, text, code, weight: weightOf(page, anchor, heading), length: 0 };
    const index = sections.push(section) - 1;
    const worth = new Map();
    for (const [field, each] of Object.entries(FIELDS)) {
      for (const word of words(section[field])) {
        const key = stem(word);
        worth.set(key, (worth.get(key) || 0) + each);
        section.length += field === "text" || field === "code" ? each : 0;
      }
    }
    for (const [key, sum] of worth) {
      if (!postings.has(key)) postings.set(key, []);
      postings.get(key).push([index, sum]);
    }
  }
}
const usual = sections.reduce((sum, section) => sum + section.length, 0) / sections.length;

// The sections with a word, or, for less, with a longer word that begins with it.
const holding = (key) => {
  const worth = new Map();
  for (const [other, places] of postings) {
    const share = other === key ? 1 : key.length > 2 && other.startsWith(key) ? 0.4 : 0;
    if (share) for (const [index, sum] of places) worth.set(index, (worth.get(index) || 0) + share * sum);
  }
  return worth;
};

const search = (query) => {
  const asked = query.replace(/\ba\/b[ -]?test(s|ing)?\b/gi, "trial");
  const name = query.trim().match(/^(?:hc|holdcourse)\.(?:.*?\.)??([A-Z]\w*\.\w+|\w+)(?:\(.*)?$/)?.[1]; // as it stands in code
  const all = (name ?? asked).toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];
  const kept = all.filter((word) => !STOPWORDS.has(word));
  const keys = [...new Set((kept.length ? kept : all).map(stem))];
  const phrase = plain(name ?? asked);
  const scores = new Map(); // of sections
  const covers = new Map(); // from a page to the words that it has
  for (const key of keys) {
    const places = holding(key);
    const rarity = Math.log(1 + sections.length / (places.size + 1));
    for (const [index, worth] of places) {
      const section = sections[index];
      const length = 0.5 + 0.5 * (section.length / usual);
      const score = (rarity * worth) / (worth + 1.5 * Math.min(length, 4));
      scores.set(index, [(scores.get(index)?.[0] || 0) + score, (scores.get(index)?.[1] || 0) + 1]);
      if (!covers.has(section.page)) covers.set(section.page, new Set());
      covers.get(section.page).add(key);
    }
  }
  const most = Math.max(0, ...[...covers.values()].map((had) => had.size));
  const enough = [...covers.values()].filter((had) => had.size === most).length < 3 && most > 1 ? most - 1 : most;
  const pages = new Map();
  for (const [index, [sum, had]] of scores) {
    const section = sections[index];
    if (covers.get(section.page).size < enough) continue;
    let score = sum * section.weight * (had / keys.length) ** 3;
    if (keys.length > 1 && plain(`${section.heading} ${section.text}`).includes(phrase)) score *= 1.8;
    if (name && isName(section.anchor)) score *= 2;
    const named = plain(section.heading).split(" ").filter((word) => !STOPWORDS.has(word)).map(stem);
    score *= 1 + keys.filter((key) => named.includes(key)).length / Math.max(named.length, 1); // a heading about nothing else
    if (!pages.has(section.page)) pages.set(section.page, []);
    pages.get(section.page).push({ ...section, score });
  }
  const found = [...pages.values()];
  for (const own of found) own.sort((a, b) => b.score - a.score);
  const value = (own) => own.slice(0, 4).reduce((sum, section, i) => sum + section.score * (i ? 0.12 : 1), 0);
  found.sort((a, b) => value(b) - value(a));
  return { found, keys, complete: most === keys.length };
};

const element = (name, given = {}, ...children) => {
  const made = Object.assign(document.createElement(name), given);
  made.append(...children);
  return made;
};

const matches = (word, keys) => words(word).some((part) => keys.some((key) => stem(part) === key || (key.length > 2 && part.startsWith(key))));

// The part of a text with most of the words, each once, from the beginning of a word or sentence.
const excerpt = (section, keys) => {
  const inText = [...section.text.matchAll(/[\p{L}\p{N}_-]+/gu)].some(([word]) => matches(word, keys));
  const source = inText || (section.text && isName(section.anchor)) || !section.code ? section.text : section.code;
  const hits = [...source.matchAll(/[\p{L}\p{N}_]+/gu)].filter(([word]) => matches(word, keys));
  let start = 0;
  let best = 0;
  for (const hit of hits) {
    const within = hits.filter((other) => other.index >= hit.index && other.index < hit.index + EXCERPT - 60);
    const different = new Set(within.map(([word]) => keys.find((key) => matches(word, [key])))).size;
    if (different > best) [best, start] = [different, hit.index];
  }
  const before = source.slice(Math.max(0, start - 100), start);
  const sentence = Math.max(before.lastIndexOf(". "), before.lastIndexOf(": "), before.lastIndexOf("? "));
  if (start <= 60) start = 0;
  else if (sentence >= 0) start -= before.length - sentence - 2;
  else start -= Math.min(50, before.length - before.indexOf(" ", Math.max(0, before.length - 50)) - 1);
  let end = Math.min(source.length, start + EXCERPT);
  if (end < source.length) end = Math.max(source.lastIndexOf(" ", end), start + 1);
  const shown = element("p", { className: "excerpt" }, start > 0 ? "… " : "");
  let at = start;
  for (const hit of hits) {
    if (hit.index < at || hit.index + hit[0].length > end) continue;
    shown.append(source.slice(at, hit.index), element("mark", {}, hit[0]));
    at = hit.index + hit[0].length;
  }
  shown.append(source.slice(at, end), end < source.length ? " …" : "");
  return shown;
};

const address = (section) => `${section.page}.html${section.anchor ? `#${section.anchor}` : ""}`;

const show = (query) => {
  FOUND.replaceChildren();
  if (!query.trim()) return;
  const { found, keys, complete } = search(query);
  const pages = found.length === 1 ? "One page" : `${found.length} pages`;
  const said = !found.length ? `Nothing contains “${query}”. Check the spelling, or search for other words.`
    : !complete ? `No page contains all of these words. ${pages} with most of them:`
    : found.length > SHOWN ? `${pages}; the best ${SHOWN}:` : `${pages}:`;
  FOUND.append(element("p", { className: "search-summary" }, said));
  const list = element("ol", { className: "found" });
  for (const [best, ...others] of found.slice(0, SHOWN)) {
    const name = best.anchor && best.heading !== best.title ? `${best.title}: ${best.heading}` : best.title;
    const item = element("li", {}, element("a", { href: address(best) }, name), excerpt(best, keys));
    const also = others.filter((other) => other.anchor && other.score > best.score / 3).slice(0, 3);
    if (also.length) {
      const links = also.flatMap((other, i) => [i ? " · " : "", element("a", { href: address(other) }, other.heading)]);
      item.append(element("p", { className: "also" }, "Also: ", ...links));
    }
    list.append(item);
  }
  FOUND.append(list);
};

QUERY.value = new URLSearchParams(location.search).get("q") || "";
show(QUERY.value);
QUERY.addEventListener("input", () => show(QUERY.value));
if (!QUERY.value) QUERY.focus();
