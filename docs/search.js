// What counts in a search: Sphinx's own weights, corrected for what a reader looks for. Guides come first, then pages about
// one subject; the attributes of classes, pages that mention nearly every word, and decisions, which tell of the past, come last.
var Scorer = { // "var", since Sphinx declares it again
  score: ([page, title, , , score, , kind]) =>
    score
    + (/^(start|troubleshooting|trials)$|^(tutorials|how-to|theory)\//.test(page) ? 10 : 0)
    - (/^(architecture|plain-words|record-format|release|evidence)$|^reference\/http$/.test(page) ? 15 : 0)
    - (page.startsWith("decisions/") ? 25 : 0)
    - (kind === "object" && /^holdcourse\.(.+\.)?[A-Z]\w*\.\w+$/.test(title) ? 15 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
