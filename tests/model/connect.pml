// SPDX-License-Identifier: GPL-2.0-only
/*
 * The handshake of two nodes, and the lives and tokens of the path between them, for spin. Each inline or event names
 * the functions of kernel/connect.c, path.c or drive.c whose decisions it makes. check.sh runs it;
 * Documentation/testing.rst says what is checked, and what is left out.
 *
 * -DUD: datagrams; else connections (RC, UC). -DFAULTS=N: how many faults a run has in all. -DFAIR: for comes_up, which
 * needs that every timer runs out some day. -DNO_...: a protocol that is broken on purpose, which one of the properties
 * must reject.
 *
 * Time: a timer runs out when nothing else can happen any more, as it is longer than any way through the network. One
 * that runs out before is a fault. So is whatever a message suffers. Messages that are held back come at any time, and
 * a packet comes to each queue pair of the node, since the number of an old one may be in use again.
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ROOM
#define ROOM 1
#endif
#define LOOKUPS_MAX 2

mtype = { DOWN, CONNECTING, BROKEN, UP };		/* enum ibrelk_path_state */
mtype = { NONE, RESOLVING, CALLING, REPLIED,		/* own call; REPLIED: the event of WELCOME is in its queue */
	  ANSWERED, CONFIRMED };			/* the peer's; CONFIRMED: the event of RTU is in its queue */
mtype = { HELLO, WELCOME, BUSY, NEVER, SIMULTANEOUS,	/* the last three are REJECTs */
	  RTU, BYE,					/* BYE: the CM's word at the end: DREQ, or a REJ of its own */
	  DATA, ACK };
mtype = { MESSAGE, AGREED, RESOLVED, WORK, WISH, SEND, SILENCE, TIMER, GIVE_UP, DEADLINE, CRASH };	/* events */
mtype = { NOTHING, COMES, LOST, HELD, COPIED };		/* what becomes of a message */
mtype = { RETRY, FAIL, CALL };				/* what an event ends with, or NOTHING */

typedef side {
	byte instance, token;			/* random numbers: each is drawn once, or is nowhere in use */
	mtype state = DOWN;			/* struct ibr_path */
	bool established, renew, work;		/* work: connect_work is queued */
	byte remote, remote_instance, secret;
	bool want;				/* from now on there is always something to send */
	byte sent;				/* of that; 0: nothing, 1: once, 2: again, 3: it was acknowledged */
	bool wanted, armed;			/* struct ibr_cm; armed: the timer, while there is no call nor answer */
	byte attempts;				/* counted for datagrams only */
	mtype call = NONE;			/* .active: nonce, told token, and what WELCOME said */
	byte c_nonce, c_told, c_key, c_token, c_instance;
	mtype answer = NONE;			/* .passive: its HELLO, our nonce, told token, packet that came early */
	byte a_nonce, a_told, a_key, a_token, a_instance, a_held;
	byte up, up_key;			/* .up: the conversation's nonces */
	/* Known to the checks only: */
	byte tokens = 1, lives, life;		/* drawn so far; begun so far; the present one */
	byte partner, partners;			/* the peer's life whose packets this one takes; the last taken */
	byte open				/* conversations that the CM has for this side */
};

side s[2];
byte faults = FAULTS, crashes = CRASHES, lowest = 4, highest = 5;
byte ran;					/* timers that have run out */

/* What travels: kind, nonce of HELLO, nonce of WELCOME or secret, token, instance, life of the sender. */
chan net[2] = [10] of { mtype, byte, byte, byte, byte, byte };	/* to this side, in order */
chan old[2] = [1] of { mtype, byte, byte, byte, byte, byte };	/* held back, or copied */

/* The event that is being handled; nothing else happens meanwhile. Nothing of it is left for the next one. */
mtype event = NOTHING, luck = NOTHING, kind = NOTHING;
byte nonce, key, token, instance, life;
bool over;					/* peer_timeout_ms are over; a crash: the node says BYE */
hidden mtype ends;
hidden byte told, held, n, good, same, of_this_life;

#define ME s[me]
#define PEER (1 - me)
#define KNOWN (ME.established && ME.remote == token && ME.remote_instance == instance)
#define REPEATED (nonce == ME.a_nonce || nonce == ME.up)		/* the CM knows that HELLO */
#define NAMES(x, y) (nonce == x && (key == y || key == 0 || y == 0))
#define LISTENS (ME.call != REPLIED && ME.answer != CONFIRMED)		/* events are handled in order */

#ifdef UD
#define EITHER (ME.call != NONE)
#ifdef NO_WISH
#define NOW (ME.state == UP && KNOWN)
#else
#define NOW (ME.wanted || (ME.state == UP && KNOWN))			/* path_knows() */
#endif
#else
#define EITHER (ME.call != NONE || ME.answer != NONE)
#ifdef NO_TIE
#define YIELDS false
#else
#define YIELDS (ME.call == CALLING && ME.instance < instance)		/* the peer; mine_is_lower() */
#endif
#endif

#define runs(x) (s[x].work || s[x].call == RESOLVING || s[x].call == REPLIED || s[x].answer == CONFIRMED || \
	(s[x].want && (s[x].state == DOWN || (s[x].state == UP && s[x].sent == 0))))
#define quiet (len(net[0]) == 0 && len(net[1]) == 0 && !runs(0) && !runs(1))
#define fault (faults > 0)
/* FAIR: of the timers that wait, none runs out twice before each of the others has. Two of each side: */
#define SENDER(x) (1 << (2 * x))
#define CM(x) (2 << (2 * x))
#define sends(x) (s[x].state == UP && s[x].sent > 0)
#define calls(x) (s[x].call != NONE || s[x].answer != NONE || s[x].armed)
#ifdef FAIR
#define wait (sends(0) * SENDER(0) + calls(0) * CM(0) + sends(1) * SENDER(1) + calls(1) * CM(1))
#define due(timer) (quiet && (!(ran & timer) || !(wait & ~ran)))
#define spend(timer) \
	faults = (due(timer) -> faults : faults - 1); \
	ran = (due(timer) -> ((wait & ~ran) -> (ran | timer) : timer) : ran)
#else
#define due(timer) quiet
#define spend(timer) faults = (quiet -> faults : faults - 1)
#endif
#define room (len(net[PEER]) < ROOM)			/* nobody is far ahead of the network */

#define knows(x) (s[x].state == UP && s[x].remote == s[1 - x].token && s[x].remote_instance == s[1 - x].instance)
#define MATCH (knows(0) && knows(1) && s[0].secret == s[1].secret && s[0].up == s[1].up && s[0].up_key == s[1].up_key)

/* When faults have come to their end, whoever wants to send has a connection that both ends agree about. */
ltl comes_up { <> [] (s[0].want || s[1].want -> MATCH) }

/* ---- conversations ---- */

#define holds(x) (s[x].c_nonce == n || s[x].c_key == n || s[x].a_nonce == n || s[x].a_key == n || s[x].up == n || \
	s[x].up_key == n || s[x].secret == n || \
	net[x]??[_, eval(n), _, _, _, _] || net[x]??[_, _, eval(n), _, _, _] || \
	old[x]??[_, eval(n), _, _, _, _] || old[x]??[_, _, eval(n), _, _, _])

/* get_random_u64(): a nonce that nobody remembers, nor any message. So there need not be many. */
inline draw() { n = 1; do :: holds(0) || holds(1) -> n++ :: !(holds(0) || holds(1)) -> break od }

inline say(what, first, second, third)
{
	assert(nfull(net[PEER]));
	net[PEER]!what, first, second, third, ME.instance, 0
}

/* packet_send(), drive_control() */
inline post(what) { assert(nfull(net[PEER])); net[PEER]!what, 0, ME.secret, ME.remote, 0, ME.life }

/* link_close(): the CM tells the peer. */
inline close(first, second)
{
#ifdef UD
	skip
#else
	ME.open--;
	say(BYE, first, second, 0)
#endif
}

inline call_clear() { ME.call = NONE; ME.c_nonce = 0; ME.c_told = 0; ME.c_key = 0; ME.c_token = 0; ME.c_instance = 0 }
inline answer_clear()
{
	ME.answer = NONE; ME.a_nonce = 0; ME.a_told = 0; ME.a_key = 0; ME.a_token = 0; ME.a_instance = 0; ME.a_held = 0
}

/* link_drop() of each place */
inline call_drop()
{
	if :: ME.call == CALLING || ME.call == REPLIED -> close(ME.c_nonce, ME.c_key) :: else fi;
	call_clear()
}
inline answer_drop()
{
	if :: ME.answer != NONE -> close(ME.a_nonce, ME.a_key) :: else fi;
	answer_clear()
}
inline up_drop()
{
	if :: ME.up -> close(ME.up, ME.up_key) :: else fi;
	ME.up = 0; ME.up_key = 0
}

/* ---- the path ---- */

/* ibr_path_renew_token() */
inline renew_token()
{
	if
	:: ME.renew ->
		ME.renew = false;
#ifndef NO_RENEWAL
		ME.tokens++; ME.token = ME.tokens
#endif
	:: else
	fi
}

/* path_reset() */
inline life_end()
{
	if :: ME.established -> ME.renew = true :: else fi;
	ME.established = false; ME.remote = 0; ME.remote_instance = 0; ME.secret = 0; ME.life = 0; ME.partner = 0
}

/* path_break() */
inline path_break() { ME.state = BROKEN; ME.work = true; ME.sent = 0 }

/* ibr_path_receive(), wire_parse(); qp_hold(). A life takes packets of one life of the peer, and that of no other. */
inline receive()
{
	good = ME.established;
#ifndef UD
	good = good && ME.up;
#endif
#ifndef NO_CHECKS
	good = good && token == ME.token;
#ifndef NO_SECRET
	good = good && key == ME.secret;
#endif
#endif
	if
	:: good ->
		of_this_life = (life == ME.partner || (ME.partner == 0 && life > ME.partners));
		assert(of_this_life);
		ME.partner = life; ME.partners = life;
		if
		:: kind == ACK && ME.sent -> ME.sent = 3
		:: kind == DATA && ME.state == UP -> post(ACK)
		:: else
		fi
#ifndef UD
	:: !good && ME.answer == ANSWERED && token == ME.a_told && key == ME.a_key ->
		ME.answer = CONFIRMED; ME.a_held = life
#endif
	:: else
	fi
}

/* ---- events ---- */

/* cm_asked(), cm_asked_ud() */
inline asked()
{
	if
	:: REPEATED
#ifdef UD
	:: !REPEATED && NOW -> renew_token(); say(WELCOME, nonce, 0, ME.token)	/* cm_answer_ud() */
	:: !REPEATED && !NOW ->
		answer_clear(); ME.answer = ANSWERED; ME.a_nonce = nonce;	/* not yet */
		if :: ME.call == NONE -> ME.attempts = 0; ends = CALL :: else fi
#else
	:: !REPEATED && YIELDS -> say(SIMULTANEOUS, nonce, 0, 0)
	:: !REPEATED && !YIELDS ->
#ifndef NO_DROPPING
		call_drop();
#endif
		answer_drop();
		renew_token();
		ME.answer = ANSWERED; ME.armed = false; ME.open++;
		ME.a_nonce = nonce; ME.a_told = ME.token; ME.a_token = token; ME.a_instance = instance;
		draw(); ME.a_key = n;
		say(WELCOME, nonce, n, ME.token)
#endif
	fi
}

/* The CM's, and cm_handle_active(): WELCOME. The CM itself sends RTU. */
inline welcomed()
{
	if
	:: ME.call == CALLING && nonce == ME.c_nonce ->
		ME.call = REPLIED; ME.c_key = key; ME.c_token = token; ME.c_instance = instance;
#ifndef UD
		say(RTU, nonce, key, 0)
	:: ME.up && nonce == ME.up && key == ME.up_key -> say(RTU, nonce, key, 0)
	:: else -> say(BYE, nonce, key, 0)
#else
	:: else
#endif
	fi
}

/* cm_refused(), and cm_handle_active(), cm_handle_passive(), cm_handle_up() of BYE */
inline ended()
{
	if
	:: ME.call == CALLING && NAMES(ME.c_nonce, ME.c_key) ->
		call_clear(); ends = (kind == NEVER -> FAIL : RETRY);
#ifndef UD
		ME.open--
	:: kind == BYE && ME.answer != NONE && NAMES(ME.a_nonce, ME.a_key) ->
		answer_clear(); ME.open--;
		ends = (ME.wanted -> CALL : NOTHING)
	:: kind == BYE && ME.up && NAMES(ME.up, ME.up_key) && ME.state == UP -> path_break()
#endif
	:: else
	fi
}

inline message()
{
	if
	:: luck == LOST
	:: luck == HELD -> old[me]!kind, nonce, key, token, instance, life
	:: luck == COPIED ->
		old[me]!kind, nonce, key, token, instance, life;
		net[me]!kind, nonce, key, token, instance, life
	:: luck == BUSY || luck == NEVER -> say(luck, nonce, 0, 0)	/* link_request() */
	:: luck == COMES && kind == HELLO -> asked()
	:: luck == COMES && kind == WELCOME -> welcomed()
	:: luck == COMES && kind == RTU ->
		if
		:: ME.answer == ANSWERED && nonce == ME.a_nonce && key == ME.a_key -> ME.answer = CONFIRMED
		:: else
		fi
	:: luck == COMES && (kind == DATA || kind == ACK) -> receive()
	:: else -> ended()
	fi
}

/* cm_established(), cm_up(), ibr_path_connected(), path_start_life() */
inline agreed()
{
	if
	:: ME.call == REPLIED ->
		nonce = ME.c_nonce; key = ME.c_key; token = ME.c_token; instance = ME.c_instance;
		told = ME.c_told; held = 0;
		call_clear()
	:: else ->
		nonce = ME.a_nonce; key = ME.a_key; token = ME.a_token; instance = ME.a_instance; told = ME.a_told;
		held = ME.a_held;
		answer_clear()
	fi;
	same = KNOWN;
#ifdef NO_EPOCH
	same = ME.established;
#endif
	if
#ifndef NO_TOLD
	/* Our life has ended since the peer was told its token. */
	:: told != ME.token -> close(nonce, key); ends = RETRY
	:: told == ME.token && ME.renew ->
		ME.state = (ME.want -> CONNECTING : DOWN); ME.work = ME.work || ME.want;
		up_drop();
		close(nonce, key); ends = RETRY
#endif
	:: else ->
		if :: !same -> life_end(); ME.lives++; ME.life = ME.lives :: else fi;
		if :: !same || ME.state != UP -> ME.sent = 0 :: else fi;
		ME.established = true; ME.renew = false; ME.state = UP;
		ME.remote = token; ME.remote_instance = instance;
		ME.armed = false; ME.wanted = false; ME.attempts = 0;
#ifdef UD
		ME.secret = (me -> 16 * token + ME.token : 16 * ME.token + token);	/* link_agree() */
		if :: ME.answer != NONE -> say(WELCOME, ME.a_nonce, 0, ME.token); answer_clear() :: else fi
#else
		ME.secret = key; ME.sent = 0;
#ifndef NO_CLOSING
		up_drop();
#endif
		ME.up = nonce; ME.up_key = key;
		if :: held -> kind = DATA; token = told; life = held; receive() :: else fi	/* qp_deliver_held() */
#endif
	fi
}

/* path_connect_work(), ibr_connect_stop(), ibr_connect_start() */
inline connect_work()
{
	ME.work = false;
	if :: ME.state == BROKEN -> up_drop() :: else fi;
	renew_token();
	if
	:: ME.state == UP
	:: ME.state != UP && !ME.want -> ME.state = DOWN
	:: ME.state != UP && ME.want ->
		ME.state = CONNECTING;
		if :: !ME.wanted && ME.call == NONE && ME.answer == NONE -> ME.attempts = 0; ends = CALL :: else fi;
#if defined(UD) && !defined(NO_ANSWER)
		/* cm_answer_ud(): whoever wants it himself waits for nobody. */
		if :: !ME.wanted && ME.answer != NONE -> say(WELCOME, ME.a_nonce, 0, ME.token); answer_clear() :: else fi;
#endif
		ME.wanted = true
#ifdef UD
		; assert(ME.answer == NONE)
#endif
	fi
}

/* The node is gone, and comes back: ibr_path_init(), path_create(). An orderly end says so. */
inline crash()
{
	if :: over -> up_drop() :: else fi;
	life_end(); call_clear(); answer_clear();
	ME.up = 0; ME.up_key = 0; ME.open = 0; ME.state = DOWN; ME.renew = false; ME.work = false; ME.want = false;
	ME.sent = 0; ME.wanted = false; ME.armed = false; ME.attempts = 0; ME.tokens++; ME.token = ME.tokens
}

/* cm_retry(), cm_fail(), ibr_path_failed(), cm_call() */
inline conclude()
{
	if
	:: ends == RETRY ->
		call_drop();
		if :: !ME.wanted && ME.attempts >= LOOKUPS_MAX -> ends = FAIL :: else -> ME.armed = true fi
	:: else
	fi;
	if
	:: ends == FAIL ->
		call_drop();
#ifdef UD
		answer_clear();
#endif
		if
		:: ME.wanted && ME.state != UP && ME.established && ME.want && !over ->
			ME.state = CONNECTING; ME.work = true
		:: ME.wanted && ME.state != UP && !(ME.established && ME.want && !over) -> ME.state = DOWN; life_end()
		:: else
		fi;
		ME.armed = false; ME.attempts = 0; ME.wanted = false
	:: ends == CALL && !EITHER ->
		ME.call = RESOLVING; ME.armed = false;
#ifdef UD
		ME.attempts = (ME.attempts < LOOKUPS_MAX -> ME.attempts + 1 : ME.attempts)
#endif
	:: else
	fi
}

inline handle()
{
	ends = NOTHING;
	if
	:: event == MESSAGE -> message()
	:: event == AGREED -> agreed()
	:: event == RESOLVED ->				/* link_call(), link_open() */
		renew_token();
		draw();
		ME.c_nonce = n; ME.c_told = ME.token; ME.call = CALLING;
#ifndef UD
		ME.open++;
#endif
		say(HELLO, n, 0, ME.token)
	:: event == WORK -> connect_work()
	:: event == WISH -> if :: ME.want -> ME.state = CONNECTING; ME.work = true :: else -> ME.want = true fi
	:: event == SEND -> ME.sent++; post(DATA)
	:: event == SILENCE -> path_break()		/* ibr_path_suspect() */
	:: event == TIMER ->				/* cm_timer() */
		ME.armed = false;
		if
		:: ME.call != NONE -> ends = RETRY
#ifndef UD
		:: ME.call == NONE && ME.answer != NONE -> answer_drop(); ends = (ME.wanted -> CALL : NOTHING)
#endif
		:: else -> ends = (ME.wanted || ME.answer != NONE -> CALL : NOTHING)
		fi
	:: event == GIVE_UP -> life_end(); if :: ME.state == UP -> path_break() :: else fi	/* ibr_path_give_up() */
	:: event == DEADLINE -> ends = FAIL
	:: event == CRASH -> crash()
	:: else
	fi;
	conclude()
}

proctype node(byte me)
{
	do
	:: atomic {
		if
		:: LISTENS && len(net[me]) > 0 ->
			event = MESSAGE;
			net[me]?kind, nonce, key, token, instance, life;
			if
			:: luck = COMES
			:: fault -> faults--; luck = LOST
			:: fault && len(old[me]) == 0 -> faults--; luck = HELD
			:: fault && len(old[me]) == 0 -> faults--; luck = COPIED
			:: fault && kind == HELLO && !REPEATED -> faults--; luck = BUSY
			:: fault && kind == HELLO && !REPEATED -> faults--; luck = NEVER
			:: kind == NEVER -> luck = COMES; over = true
			fi
		:: LISTENS && len(old[me]) > 0 ->
			event = MESSAGE; luck = COMES;
			old[me]?kind, nonce, key, token, instance, life
		:: !LISTENS -> event = AGREED
		:: room && ME.call == RESOLVING -> event = RESOLVED
		:: room && ME.work -> event = WORK
		/* There is something to send: ibr_path_want(), ibr_path_drive_locked(), drive_timer() */
		:: (!ME.want || ME.state == DOWN) -> event = WISH
		:: room && ME.want && ME.state == UP && ME.sent == 0 -> event = SEND
		:: room && ME.state == UP && ME.sent == 1 && (due(SENDER(me)) || fault) ->
			spend(SENDER(me)); event = SEND
		:: room && ME.state == UP && ME.sent == 2 && (due(SENDER(me)) || fault) -> spend(SENDER(me));
#ifdef NO_SILENCE
			ME.sent = 1; event = SEND
#else
			event = SILENCE
#endif
		:: room && ME.state == UP && ME.sent == 3 && due(SENDER(me)) -> spend(SENDER(me)); ME.sent = 0
#ifndef NO_TIMER
		:: room && (EITHER || ME.armed) && (due(CM(me)) || fault) -> spend(CM(me)); event = TIMER
#endif
		:: fault && ME.established -> faults--; event = GIVE_UP
		:: fault && ME.wanted -> faults--; event = DEADLINE; if :: true :: over = true fi
		:: fault && crashes ->
			faults--; crashes--; event = CRASH;
			if :: true :: over = true fi;
			if :: lowest--; ME.instance = lowest :: highest++; ME.instance = highest fi
		fi;
		d_step {
			handle();
			event = NOTHING; luck = NOTHING; kind = NOTHING; over = false;
			nonce = 0; key = 0; token = 0; instance = 0; life = 0
		}
	}
	od
}

/* Call and answer exclude each other, and the CM has no conversation that no place knows. */
#define ALONE(x) ((s[x].call == NONE || s[x].answer == NONE) && \
	s[x].open == (s[x].call == CALLING || s[x].call == REPLIED || s[x].answer != NONE) + (s[x].up != 0))

#ifndef UD
active proctype monitor()
{
end:	atomic { !ALONE(0) || !ALONE(1) -> assert(ALONE(0) && ALONE(1)) }
}
#endif

init
{
	atomic {
		s[0].instance = 4; s[0].token = 1; s[1].instance = 5; s[1].token = 1;
		run node(0); run node(1)
	}
}
