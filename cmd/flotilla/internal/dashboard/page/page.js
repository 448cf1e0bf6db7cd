// The page of `flotilla dashboard`: it shows what the server sends, part by part. Names and messages come from clusters
// and are hostile input: they become text only, and never markup, addresses or code.

const byId = (id) => document.getElementById(id);
const text = (node, value) => {
  const now = value === null || value === undefined ? '–' : String(value);
  if (node.textContent !== now) node.textContent = now;
};
const attribute = (node, name, value) => {
  if (value === null || value === false || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
};
const shown = (node, is) => { node.hidden = !is; };
const make = (tag, name, ...children) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children);
  return node;
};

// What is asked for, in the fragment of the address, so that it survives a reload. The token is not kept there.
const asked = { ns: '', q: '', only: '', group: '', open: '', page: 0, needs: 0, part: 0 };
let token = '';
{
  const given = new URLSearchParams(location.hash.slice(1));
  token = given.get('token') || sessionStorage.getItem('token') || '';
  sessionStorage.setItem('token', token);
  for (const name of Object.keys(asked)) {
    if (given.has(name)) asked[name] = typeof asked[name] === 'number' ? Number(given.get(name)) || 0 : given.get(name);
  }
}
const parameters = () => {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) if (value) out.set(name, value);
  return out.toString();
};
const remember = () => history.replaceState(null, '', '#' + parameters());
remember();

// The view: its parts by name.
let parts = new Map();
let last = '';
let stopped = null;
let begun = false;

// A stream that is silent for longer than this is dead: the server sends a heartbeat every 15 s.
const silence = 40000;

// listen follows the server until another stream begins, and connects again after each end.
async function listen() {
  begun = true;
  stopped?.abort();
  const mine = new AbortController();
  stopped = mine;
  for (let wait = 500; !mine.signal.aborted;) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    mine.signal.addEventListener('abort', end);
    let watchdog = setTimeout(end, silence);
    try {
      const headers = { Authorization: 'Bearer ' + token };
      if (last) headers['Last-Event-ID'] = last;
      const answer = await fetch('events?' + parameters(), { headers, signal: attempt.signal, cache: 'no-store' });
      if (!answer.ok) {
        const why = (await answer.text()).trim();
        link('off', why);
        if (answer.status === 401) return;
      } else {
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ''; ;) {
          const { done, value } = await reader.read();
          if (done || mine.signal.aborted) break;
          clearTimeout(watchdog);
          watchdog = setTimeout(end, silence);
          wait = 500;
          const lines = (rest + value).split('\n\n');
          rest = lines.pop();
          lines.forEach(receive);
        }
        if (!mine.signal.aborted) link('off', 'not connected, trying again');
      }
    } catch {
      if (!mine.signal.aborted) link('off', 'not connected: does flotilla dashboard still run?');
    }
    clearTimeout(watchdog);
    end();
    mine.signal.removeEventListener('abort', end);
    if (mine.signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 8000);
  }
}

// ask shows something else: another stream, which begins with a snapshot.
function ask(changes) {
  Object.assign(asked, changes);
  remember();
  last = '';
  listen();
}

// receive takes one event in. A change of another view than the one that is here is a gap: a snapshot is asked for.
function receive(block) {
  let id = '', name = '', data = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  link('live', 'live');
  if (!data) return;
  const event = JSON.parse(data);
  if (name === 'change' && event.base !== last) {
    last = '';
    listen();
    return;
  }
  if (name === 'snapshot') parts = new Map();
  for (const [key, value] of Object.entries(event.set || {})) parts.set(key, value);
  for (const key of event.drop || []) parts.delete(key);
  last = id;
  document.documentElement.dataset.event = name + ' ' + id;
  render();
}

function link(state, words) {
  attribute(byId('link'), 'data-state', state);
  text(byId('link'), words);
}

// sync gives a list one node for each row, in their order; nodes of rows that stay are kept, and the focus with them.
function sync(parent, rows, create, fill) {
  const held = parent.contains(document.activeElement) ? document.activeElement : null;
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  for (const key of rows) {
    let node = old.get(key);
    if (node) old.delete(key);
    else {
      node = create(key);
      node.dataset.key = key;
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
    fill(node, parts.get(key) || {}, key);
  }
  for (const node of old.values()) node.remove();
  if (held && document.activeElement !== held) {
    if (held.isConnected) held.focus();
    else parent.querySelector('button')?.focus();
  }
}

const count = (n) => Number(n).toLocaleString('en-US');

function render() {
  const head = parts.get('head');
  if (!head) return;
  text(byId('hub'), head.hub);
  shown(byId('failing'), Boolean(head.failing));
  text(byId('failing'), head.failing || '');
  const needs = parts.get('needs');
  sums(head);
  unread(head);
  namespaces(head);
  fleet();
  sync(byId('needlist'), needs.rows, newNeed, fillNeed);
  shown(byId('noneed'), !needs.total);
  text(byId('noneed'), head.loading ? 'Reading the hub…' : asked.q || asked.ns ? 'Nothing with these filters.' :
    'Nothing: all that you may read is placed and Ready.');
  pager(byId('needpager'), needs, 'needs', 'open matters');
  const list = parts.get('list');
  sync(byId('rows'), list.rows, newRow, fillRow);
  shown(byId('norows'), !list.total);
  text(byId('norows'), head.loading ? 'Reading the hub…' : 'No workload is found with these filters.');
  pager(byId('pager'), list, 'page', 'workloads');
  opened();
  if (!head.loading) announce(head.needs);
}

function sums(head) {
  const set = (id, words, bad) => {
    text(byId(id), words);
    attribute(byId(id), 'data-bad', bad ? '' : null);
  };
  if (head.loading) {
    for (const id of ['s-members', 's-workloads', 's-pods', 's-needs']) set(id, '–', false);
    return;
  }
  set('s-members', `${count(head.ready)} of ${count(head.members)}`, head.ready < head.members);
  set('s-workloads', `${count(head.well)} of ${count(head.workloads)}`, head.well < head.workloads);
  set('s-pods', `${count(head.podsReady)} of ${count(head.desired)}`, false);
  set('s-needs', count(head.needs), head.needs > 0);
}

let announced = -1;
function announce(total) {
  if (announced >= 0 && total !== announced) {
    text(byId('live'), total === 0 ? 'Nothing needs you any more.' :
      `${count(total)} ${total === 1 ? 'thing needs' : 'things need'} you, ${total > announced ? 'more' : 'fewer'} than before.`);
  }
  announced = total;
}

function unread(head) {
  const rows = head.unread || [];
  shown(byId('unread'), rows.length > 0);
  const list = byId('unread').querySelector('ul');
  const signature = JSON.stringify([rows, head.moreUnread]);
  if (list.dataset.shown === signature) return;
  list.dataset.shown = signature;
  list.replaceChildren(...rows.map((row) => {
    const node = make('li', '', make('strong', '', row.what), ' ', row.why);
    if (row.command) node.append(command(row.command));
    return node;
  }));
  if (head.moreUnread) list.append(make('li', 'quiet', `${count(head.moreUnread)} more`));
}

function namespaces(head) {
  const select = byId('ns');
  const all = head.namespaces.filter(Boolean);
  if (asked.ns && !all.includes(asked.ns)) all.push(asked.ns);
  const signature = all.join(' ');
  if (select.dataset.shown !== signature) {
    select.dataset.shown = signature;
    select.replaceChildren(new Option('all', ''), ...all.map((name) => new Option(name, name)));
  }
  select.value = asked.ns;
}

function fleet() {
  const strip = parts.get('strip');
  shown(byId('back'), Boolean(strip.group));
  sync(byId('squares'), strip.rows, strip.grouped ? newGroup : newSquare, strip.grouped ? fillGroup : fillSquare);
  const first = byId('squares').firstElementChild;
  if (first && !byId('squares').querySelector('[tabindex="0"]')) first.tabIndex = 0;
  if (!byId('squares').contains(document.activeElement)) {
    const of = strip.group ? ` in ${strip.group}` : '';
    const more = strip.more ? `, and ${count(strip.more)} more` : '';
    text(byId('about'), strip.grouped ?
      `Each box is the members of one region and its zones${more}: open one to see them.` :
      strip.rows.length ? `${count(strip.rows.length)} members${of}${more}: move to a square to read about it.` :
        parts.get('head').loading ? 'Reading the hub…' : 'No member is shown.');
  }
}

const newSquare = () => {
  const node = make('button', 'square');
  node.tabIndex = -1;
  return node;
};
function fillSquare(node, member) {
  attribute(node, 'data-state', member.state);
  attribute(node, 'aria-label', member.text);
  if (node === document.activeElement) text(byId('about'), member.text);
}

const newGroup = () => {
  const node = make('button', 'group', make('span'), make('b'), make('i'));
  node.tabIndex = -1;
  return node;
};
function fillGroup(node, group) {
  const [name, good, bad] = node.children;
  text(name, group.name);
  text(good, count(group.total - group.bad));
  text(bad, count(group.bad));
  shown(bad, group.bad > 0);
  attribute(node, 'aria-label', `${group.name}: ${group.total - group.bad} of ${group.total} members ready`);
}

// command returns a command with a button that copies it.
function command(words) {
  const button = make('button', 'copy', 'Copy');
  attribute(button, 'aria-label', 'Copy: ' + words);
  return make('div', 'command', make('code', '', words), button);
}

const newNeed = () => make('li', 'need', make('div', '', make('div', 'kind'), make('div')),
  make('div', '', make('p'), make('p', 'who'), make('div', 'commands')));
function fillNeed(node, need) {
  node.className = need.urgent ? 'need urgent' : 'need';
  const [left, right] = node.children;
  text(left.children[0], need.kind);
  const subject = left.children[1];
  if (subject.dataset.shown !== need.subject) {
    subject.dataset.shown = need.subject;
    subject.replaceChildren(need.subject);
    if (need.of) {
      const name = make('button', 'name', need.subject);
      name.dataset.open = need.of;
      subject.replaceChildren(name);
    }
  }
  text(right.children[0], need.sentence);
  text(right.children[1], need.who || '');
  shown(right.children[1], Boolean(need.who));
  const commands = right.children[2];
  const signature = (need.commands || []).join('\n');
  if (commands.dataset.shown !== signature) {
    commands.dataset.shown = signature;
    commands.replaceChildren(...(need.commands || []).map(command));
  }
}

const labels = ['Desired', 'Placed', 'Ready', 'Updated'];
const cells = () => labels.map((label) => {
  const node = make('td', 'number');
  node.dataset.label = label;
  return node;
});
function fillCells(node, numbers) {
  numbers.forEach((n, i) => {
    const cell = node.children[i + 1];
    text(cell, n === null ? '–' : count(n));
    cell.className = (i === 1 || i === 2) && n !== null && n < numbers[0] ? 'number off' : 'number';
  });
}

const newRow = (key) => {
  const name = make('button', 'name');
  name.dataset.open = key.slice(2);
  return make('tr', '', make('td', '', name, make('span', 'sort')), ...cells(), make('td', 'state'));
};
function fillRow(node, row, key) {
  node.className = row.level + (row.stale ? ' stale' : '');
  const [name, sort] = node.firstElementChild.children;
  text(name, row.namespace ? `${row.namespace}/${row.name}` : row.name);
  text(sort, row.kind);
  fillCells(node, row.numbers || []);
  text(node.lastElementChild, row.note || 'placed and Ready');
  attribute(node.lastElementChild, 'title', row.note || null); // it may be cut off
  attribute(node, 'aria-current', key === 'w/' + asked.open ? 'true' : null);
}

const newPlace = () => make('tr', '', make('td', 'where'), ...cells(), make('td'));
function fillPlace(node, row) {
  node.className = 'level' + row.level + (row.stale ? ' stale' : '');
  text(node.firstElementChild, row.name);
  fillCells(node, row.numbers || []);
  text(node.lastElementChild, row.note || '');
}

// opened shows the workload that is open.
function opened() {
  const open = parts.get('open');
  const section = byId('open');
  const before = section.hidden;
  shown(section, Boolean(open));
  if (!open) {
    byId('openneeds').replaceChildren(); // their commands are not to be copied any more
    return;
  }
  text(byId('h-open'), open.gone ? `${open.title} does not exist any more` : open.title);
  wave(open.wave, open.needs);
  const facts = byId('facts');
  const signature = open.facts.join('\n');
  if (facts.dataset.shown !== signature) {
    facts.dataset.shown = signature;
    facts.replaceChildren(...open.facts.map((fact) => make('li', '', fact)));
  }
  // Rows without a name of their own: their places are their keys.
  const needs = open.needs.map((_, i) => '-' + i);
  open.needs.forEach((need, i) => parts.set('-' + i, { ...need, of: '' }));
  sync(byId('openneeds'), needs, newNeed, fillNeed);
  sync(byId('places'), open.rows, newPlace, fillPlace);
  pager(byId('openpager'), open, 'part', 'rows');
  if (before && opening) {
    byId('h-open').focus();
    opening = false;
  }
}

// wave shows the waves of an update: the ones that are over, the one in progress, and those to come.
const mostWaves = 12;
function wave(of, needs) {
  shown(byId('wave'), Boolean(of));
  if (!of) return;
  const [list, message] = byId('wave').children;
  text(message, of.message);
  shown(message, !needs.some((need) => need.sentence === of.message)); // it is below, with its command
  const signature = `${of.number} ${of.of} ${of.failed}`;
  if (list.dataset.shown === signature) return;
  list.dataset.shown = signature;
  const from = Math.max(1, Math.min(of.number - mostWaves / 2, of.of - mostWaves + 1));
  const nodes = [];
  for (let n = from; n <= Math.min(of.of, from + mostWaves - 1); n++) {
    const node = make('li', '', String(n));
    const state = n < of.number ? 'done' : n > of.number ? 'next' : of.failed ? 'failed' : 'now';
    node.dataset.state = state;
    attribute(node, 'aria-label', `wave ${n}: ${{ done: 'over', next: 'to come', failed: 'failed', now: 'in progress' }[state]}`);
    nodes.push(node);
  }
  list.replaceChildren(...nodes);
}

// pager shows where in a list the page is, and goes on.
function pager(node, list, name, what) {
  if (!node.firstElementChild) {
    const button = (words, by) => {
      const made = make('button', '', words);
      made.dataset.page = name;
      made.dataset.by = by;
      return made;
    };
    node.append(button('Previous', -1), make('span'), button('Next', 1));
  }
  const [previous, place, next] = node.children;
  previous.disabled = list.page <= 0;
  next.disabled = list.page >= list.pages - 1;
  shown(previous, list.pages > 1);
  shown(next, list.pages > 1);
  text(place, list.pages > 1 ? `page ${count(list.page + 1)} of ${count(list.pages)}, ${count(list.total)} ${what}` :
    list.total ? `${count(list.total)} ${what}` : '');
  node.dataset.at = list.page;
}

let opening = false;
let openedFrom = '';
function openWorkload(key) {
  openedFrom = key;
  opening = true;
  if (asked.open === key) byId('h-open').focus();
  else ask({ open: key, part: 0 });
}
function closeWorkload() {
  if (!asked.open) return;
  ask({ open: '', part: 0 });
  parts.delete('open');
  opened();
  for (const node of document.querySelectorAll('[data-open]')) {
    if (node.dataset.open === openedFrom) {
      node.focus();
      break;
    }
  }
}

async function copy(button) {
  const words = button.previousElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(words);
    text(button, 'Copied');
    text(byId('live'), 'Copied: ' + words);
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    text(byId('live'), 'The browser refuses to copy: the command is selected.');
    text(button, 'Selected');
  }
  setTimeout(() => text(button, 'Copy'), 2000);
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.className === 'copy') copy(button);
  else if (button.dataset.open) openWorkload(button.dataset.open);
  else if (button.dataset.page) ask({ [button.dataset.page]: Number(button.parentElement.dataset.at) + Number(button.dataset.by) });
  else if (button.className === 'group') ask({ group: button.dataset.key.slice(2) });
  else if (button.id === 'back') ask({ group: '' });
  else if (button.id === 'close') closeWorkload();
});

// about shows what a square is about while it has the focus or the pointer.
const about = (event) => {
  const square = event.target.closest('.square');
  if (square) text(byId('about'), square.getAttribute('aria-label'));
};
byId('squares').addEventListener('focusin', about);
byId('squares').addEventListener('pointerover', about);

// move gives the focus to a neighbour in a list; of a strip one node is in the order of the tab key.
function move(from, by) {
  const strip = from.closest('#squares');
  const all = strip ? [...strip.children] : [...from.closest('tbody, ul').querySelectorAll('.name')];
  const to = all[all.indexOf(from) + by];
  if (!to) return;
  if (strip) {
    from.tabIndex = -1;
    to.tabIndex = 0;
  }
  to.focus();
}

document.addEventListener('keydown', (event) => {
  const on = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    if (on === byId('q') && on.value) return;
    closeWorkload();
    return;
  }
  if (on.matches('input, select')) return;
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  if (event.key === '/') {
    event.preventDefault();
    byId('q').focus();
  } else if (event.key in steps && on.matches('.square, .group, tbody .name, ul .name')) {
    event.preventDefault();
    move(on, steps[event.key]);
  } else if (event.key === 'c') {
    // The command of the row that has the focus, or else of the workload that is open.
    const row = on.closest('.need, #rows tr');
    const from = row && row.dataset.key !== 'w/' + asked.open ? row : byId('open');
    const first = from.hidden ? null : from.querySelector('.copy');
    if (first) copy(first);
  }
});

let typing = 0;
byId('q').value = asked.q;
byId('only').checked = asked.only === 'notwell';
byId('q').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => ask({ q: byId('q').value, page: 0, needs: 0 }), 200);
});
byId('filter').addEventListener('submit', (event) => event.preventDefault());
byId('ns').addEventListener('change', () => ask({ ns: byId('ns').value, page: 0, needs: 0 }));
byId('only').addEventListener('change', () => ask({ only: byId('only').checked ? 'notwell' : '', page: 0 }));

// Another address of this page, with another token, was opened in this tab.
// Other fragments, as that of the link to what needs a person, only move the focus.
addEventListener('hashchange', () => {
  if (new URLSearchParams(location.hash.slice(1)).get('token')) location.reload();
  else remember();
});

// The first paint comes before the first view; a tab in the background paints nothing, and does not wait for it.
const begin = () => { if (!begun) listen(); };
requestAnimationFrame(() => setTimeout(begin));
setTimeout(begin, 250);
