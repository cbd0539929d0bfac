// vscode.js: the extension of VS Code with a stand-in for the editor: an error is shown and cleared, and providers answer.
'use strict';

const assert = require('assert');
const path = require('path');
const Module = require('module');

const [, , folder, mdlc] = process.argv;
const providers = {};
const events = {};
const shown = new Map();
const log = [];
let wake = () => {};

class Position {
  constructor(line, character) { Object.assign(this, {line, character}); }
}
class Range {
  constructor(a, b, c, d) { Object.assign(this, {start: new Position(a, b), end: new Position(c, d)}); }
  toJSON() { return [this.start, this.end]; }  // as in the editor
}
class Plain {
  constructor(...given) { this.given = given; }
}
const event = (name) => (hears) => { events[name] = hears; return {}; };
const provider = (name) => (language, made) => { providers[name] = made; return {}; };
const editor = {
  Position, Range,
  Hover: Plain, MarkdownString: Plain, Location: Plain, Diagnostic: Plain, DocumentSymbol: Plain, CompletionItem: Plain,
  DiagnosticRelatedInformation: Plain,
  TextEdit: {replace: (range, text) => ({range, text})},
  Uri: {parse: (text) => text},
  languages: {
    createDiagnosticCollection: () => ({set: (uri, list) => { shown.set(uri, list); wake(); }}),
    registerHoverProvider: provider('hover'),
    registerDefinitionProvider: provider('definition'),
    registerCompletionItemProvider: provider('completion'),
    registerDocumentSymbolProvider: provider('symbols'),
    registerDocumentFormattingEditProvider: provider('formatting')
  },
  window: {createOutputChannel: () => ({append: (text) => log.push(text), appendLine: (text) => log.push(text)})},
  workspace: {
    textDocuments: [],
    getConfiguration: () => ({get: (name) => ({server: mdlc, set: [], checkSeconds: 20}[name])}),
    onDidOpenTextDocument: event('open'),
    onDidChangeTextDocument: event('change'),
    onDidSaveTextDocument: event('save'),
    onDidCloseTextDocument: event('close'),
    onDidChangeConfiguration: event('configure')
  }
};
const load = Module._load;
Module._load = (name, ...rest) => name === 'vscode' ? editor : load(name, ...rest);

const text = 'model m {\n  axis a = 2;\n  param w: [a];\n  loss = summ(w);\n}\n';
const document = {languageId: 'mdl', uri: 'untitled:one', version: 1, getText: () => text};

async function until(holds) {
  while (!holds()) {
    await new Promise((resolve) => { wake = resolve; });
  }
}

async function main() {
  const extension = require(path.join(path.resolve(folder), 'extension.js'));
  await extension.activate({subscriptions: []});
  events.open(document);
  await until(() => shown.has(document.uri));
  const [error] = shown.get(document.uri);
  assert.deepStrictEqual(error.given[0], new Range(3, 9, 3, 13));
  assert.strictEqual(error.code, 'E010');
  assert.strictEqual(error.given[2], 0);
  document.version = 2;
  events.change({document, contentChanges: [{range: new Range(3, 9, 3, 13), text: 'sum'}]});
  await until(() => shown.get(document.uri).length === 0);
  const said = await providers.hover.provideHover(document, new Position(2, 8));
  assert.match(said.given[0].given[0], /w: real\[a\]/);
  const found = await providers.definition.provideDefinition(document, new Position(3, 13));
  assert.deepStrictEqual(found.given[1], new Range(2, 8, 2, 9));
  const items = await providers.completion.provideCompletionItems(document, new Position(3, 9));
  assert.ok(items.some((item) => item.given[0] === 'w'));
  const symbols = await providers.symbols.provideDocumentSymbols(document);
  assert.strictEqual(symbols[0].given[0], 'm');
  assert.deepStrictEqual(await providers.formatting.provideDocumentFormattingEdits(document), []);
  extension.deactivate();
}

setTimeout(() => { console.error('the extension says nothing', log); process.exit(1); }, 30000).unref();
main().catch((error) => { console.error(error, log); process.exit(1); });
