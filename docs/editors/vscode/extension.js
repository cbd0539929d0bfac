// extension.js: starts `mdlc lsp` and hands what it says to VS Code: a small client of the protocol, without packages.
'use strict';

const vscode = require('vscode');
const child_process = require('child_process');

const LANGUAGE = 'mdl';
let server = null;

// --- the protocol ---

class Server {
  constructor(command, log) {
    this.log = log;
    this.bytes = Buffer.alloc(0);
    this.last = 0;
    this.waiting = new Map();  // of requests: what to do with their answers
    this.heard = new Map();    // of methods: who hears them
    this.process = child_process.spawn(command, ['lsp']);
    this.process.stdout.on('data', (data) => this.receive(data));
    this.process.stderr.on('data', (data) => log.append(data.toString()));
    this.process.stdin.on('error', () => {});
    this.process.on('error', (error) => this.ended(`${command} cannot be started: ${error.message}`));
    this.process.on('exit', (status) => this.ended(`${command} lsp has ended with status ${status}`));
  }

  ended(why) {
    if (this.process) {
      this.process = null;
      this.log.appendLine(why);
      this.waiting.forEach((wait) => wait.resolve(null));
      this.waiting.clear();
    }
  }

  send(message) {
    if (this.process) {
      const body = Buffer.from(JSON.stringify({jsonrpc: '2.0', ...message}));
      this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
      this.process.stdin.write(body);
    }
  }

  notify(method, params) {
    this.send({method, params});
  }

  ask(method, params) {
    if (!this.process) {
      return Promise.resolve(null);
    }
    const id = ++this.last;
    this.send({id, method, params});
    return new Promise((resolve) => this.waiting.set(id, {resolve}));
  }

  receive(data) {
    this.bytes = Buffer.concat([this.bytes, data]);
    for (;;) {
      const end = this.bytes.indexOf('\r\n\r\n');
      const length = end < 0 ? null : /Content-Length: *(\d+)/i.exec(this.bytes.toString('utf8', 0, end));
      if (!length || this.bytes.length < end + 4 + Number(length[1])) {
        return;
      }
      const body = this.bytes.toString('utf8', end + 4, end + 4 + Number(length[1]));
      this.bytes = this.bytes.subarray(end + 4 + Number(length[1]));
      this.handle(JSON.parse(body));
    }
  }

  handle(message) {
    if (message.method) {
      const hears = this.heard.get(message.method);
      if (hears) {
        hears(message.params);
      }
    } else if (this.waiting.has(message.id)) {
      const wait = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) {
        this.log.appendLine(message.error.message);
      }
      wait.resolve(message.error ? null : message.result);
    }
  }

  stop() {
    const running = this.process;
    if (running) {
      this.ask('shutdown', null).then(() => this.notify('exit', null));
      setTimeout(() => running.kill(), 1000).unref();
    }
  }
}

// --- from one's words to the other's ---

function range(of) {
  return new vscode.Range(of.start.line, of.start.character, of.end.line, of.end.character);
}

function edit(of) {
  return vscode.TextEdit.replace(range(of.range), of.newText);
}

function diagnostic(of) {
  const made = new vscode.Diagnostic(range(of.range), of.message, of.severity - 1);
  made.code = of.code;
  made.source = of.source;
  made.tags = of.tags;
  made.relatedInformation = (of.relatedInformation || []).map((one) => new vscode.DiagnosticRelatedInformation(
      new vscode.Location(vscode.Uri.parse(one.location.uri), range(one.location.range)), one.message));
  return made;
}

function symbol(of) {
  const made = new vscode.DocumentSymbol(of.name, of.detail, of.kind - 1, range(of.range), range(of.selectionRange));
  made.children = (of.children || []).map(symbol);
  return made;
}

function item(of) {
  const made = new vscode.CompletionItem(of.label, of.kind - 1);
  made.detail = of.detail;
  made.documentation = of.documentation;
  made.additionalTextEdits = of.additionalTextEdits && of.additionalTextEdits.map(edit);
  if (of.textEdit) {
    made.range = range(of.textEdit.range);
    made.insertText = of.textEdit.newText;
    made.filterText = of.filterText;
  }
  return made;
}

function position_of(of) {
  return {line: of.line, character: of.character};
}

function place(document, position) {
  return {textDocument: {uri: document.uri.toString()}, position: position_of(position)};
}

function change(of) {
  return {range: {start: position_of(of.range.start), end: position_of(of.range.end)}, text: of.text};
}

// --- the extension ---

function settings() {
  const from = vscode.workspace.getConfiguration(LANGUAGE);
  const taken = {};
  for (const name of ['recipe', 'layout', 'precision', 'set', 'checkSeconds']) {
    taken[name] = from.get(name);
  }
  return taken;
}

function is_mdl(document) {
  return document.languageId === LANGUAGE;
}

function watch_documents(context) {
  const opened = (document) => {
    if (is_mdl(document)) {
      server.notify('textDocument/didOpen', {
        textDocument: {
          uri: document.uri.toString(),
          languageId: LANGUAGE,
          version: document.version,
          text: document.getText()
        }
      });
    }
  };
  const at = (document) => ({textDocument: {uri: document.uri.toString(), version: document.version}});
  vscode.workspace.textDocuments.forEach(opened);
  context.subscriptions.push(
      vscode.workspace.onDidOpenTextDocument(opened),
      vscode.workspace.onDidChangeTextDocument((event) => {
        if (is_mdl(event.document) && event.contentChanges.length > 0) {
          server.notify('textDocument/didChange', {
            ...at(event.document),
            contentChanges: event.contentChanges.map(change)
          });
        }
      }),
      vscode.workspace.onDidSaveTextDocument(
          (document) => is_mdl(document) && server.notify('textDocument/didSave', at(document))),
      vscode.workspace.onDidCloseTextDocument(
          (document) => is_mdl(document) && server.notify('textDocument/didClose', at(document))),
      vscode.workspace.onDidChangeConfiguration(
          (event) => event.affectsConfiguration(LANGUAGE) &&
              server.notify('workspace/didChangeConfiguration', {settings: {mdl: settings()}})));
}

function register(context) {
  const languages = vscode.languages;
  context.subscriptions.push(
      languages.registerHoverProvider(LANGUAGE, {
        provideHover: async (document, position) => {
          const said = await server.ask('textDocument/hover', place(document, position));
          return said && new vscode.Hover(new vscode.MarkdownString(said.contents.value));
        }
      }),
      languages.registerDefinitionProvider(LANGUAGE, {
        provideDefinition: async (document, position) => {
          const said = await server.ask('textDocument/definition', place(document, position));
          return said && new vscode.Location(vscode.Uri.parse(said.uri), range(said.range));
        }
      }),
      languages.registerCompletionItemProvider(LANGUAGE, {
        provideCompletionItems: async (document, position) => {
          const said = await server.ask('textDocument/completion', place(document, position));
          return said && said.items.map(item);
        }
      }, '.'),
      languages.registerDocumentSymbolProvider(LANGUAGE, {
        provideDocumentSymbols: async (document) => {
          const said = await server.ask('textDocument/documentSymbol', {textDocument: {uri: document.uri.toString()}});
          return said && said.map(symbol);
        }
      }),
      languages.registerDocumentFormattingEditProvider(LANGUAGE, {
        provideDocumentFormattingEdits: async (document) => {
          const said = await server.ask('textDocument/formatting', {textDocument: {uri: document.uri.toString()}});
          return said && said.map(edit);
        }
      }));
}

async function activate(context) {
  const log = vscode.window.createOutputChannel('mdl');
  const said = vscode.languages.createDiagnosticCollection(LANGUAGE);
  context.subscriptions.push(log, said);
  server = new Server(vscode.workspace.getConfiguration(LANGUAGE).get('server') || 'mdlc', log);
  server.heard.set('textDocument/publishDiagnostics',
                   (params) => said.set(vscode.Uri.parse(params.uri), params.diagnostics.map(diagnostic)));
  server.heard.set('window/logMessage', (params) => log.appendLine(params.message));
  await server.ask('initialize', {
    processId: process.pid,
    rootUri: null,
    capabilities: {textDocument: {hover: {contentFormat: ['markdown']}}},
    initializationOptions: settings()
  });
  server.notify('initialized', {});
  register(context);
  watch_documents(context);
}

function deactivate() {
  if (server) {
    server.stop();
  }
}

module.exports = {activate, deactivate};
