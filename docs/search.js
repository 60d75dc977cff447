// What counts in a search: Sphinx's own weights, but the decisions, which tell of the past, come after the pages of today.
var Scorer = { // "var", since Sphinx declares it again
  score: ([page, , , , score]) => score - (page.startsWith("decisions/") ? 20 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
